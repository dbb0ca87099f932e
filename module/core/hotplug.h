/* SPDX-License-Identifier: GPL-2.0 */
/* CPUs that go offline, come online, or become isolated (hotplug.c). */
#ifndef THEAP_HOTPLUG_H
#define THEAP_HOTPLUG_H

struct theap_queue;

unsigned int theap_cpu_choose(const struct theap_queue *queue);
void theap_queue_pin(struct theap_queue *queue);
int theap_cpu_online(unsigned int cpu);
int theap_cpu_offline(unsigned int cpu);

#endif /* THEAP_HOTPLUG_H */
