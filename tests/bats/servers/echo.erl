#!/usr/bin/env escript
%% The echo of echo.py by Erlang, whose poll sets are its own: echo.erl PORT. Even connections are read by messages, odd ones
%% by calls; a process each.
%%! +A 4

main([Port]) ->
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port), [binary, {packet, 4}, {active, false}, {ip, {127, 0, 0, 1}},
        {reuseaddr, true}, {backlog, 512}, {exit_on_close, false}, {packet_size, 1000000}]),
    accept(Listener, 0).

accept(Listener, N) ->
    {ok, S} = gen_tcp:accept(Listener),
    Pid = spawn_link(fun() -> receive go -> serve(S, N rem 2) end end),
    ok = gen_tcp:controlling_process(S, Pid),
    Pid ! go,
    accept(Listener, N + 1).

serve(S, 0) ->
    ok = inet:setopts(S, [{active, once}]),
    receive
        {tcp, S, Data} -> ok = gen_tcp:send(S, Data), serve(S, 0);
        {tcp_closed, S} -> gen_tcp:close(S)
    end;
serve(S, 1) ->
    case gen_tcp:recv(S, 0) of
        {ok, Data} -> ok = gen_tcp:send(S, Data), serve(S, 1);
        {error, closed} -> gen_tcp:close(S)
    end.
