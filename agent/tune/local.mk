# tune
