/* see ARCHITECTURE.md */
extern int hasten_preload;
int hasten_preload;
