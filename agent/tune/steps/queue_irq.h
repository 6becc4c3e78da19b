/* Which interrupt a queue has now. Numbers change when a device is reset or its channels change; the name that the
 * driver gives an interrupt stays, so operations and the journal know it by name: "virtio2-input.0", and "%-TxRx-0"
 * where the interface's own name is part of it. */
#ifndef HASTEN_TUNE_STEPS_QUEUE_IRQ_H
#define HASTEN_TUNE_STEPS_QUEUE_IRQ_H
struct sys;

/* The action's name with the interface's replaced by "%"; NULL: no memory. */
char *queue_irq_key(const char *action, const char *ifname);
/* The same for another queue of the device: the number before "@" (or at the end) becomes queue. NULL: no number there,
 * or no memory. */
char *queue_irq_other(const char *key, unsigned queue);
/* Finds the interrupt among the device's (all, where the device lists none). -ENOENT. */
int queue_irq_find(struct sys *s, const char *ifname, const char *key, unsigned *ret);
#endif
