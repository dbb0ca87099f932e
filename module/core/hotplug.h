/* SPDX-License-Identifier: GPL-2.0 */
/* CPUs that go offline and come online (hotplug.c). */
#ifndef THEAP_HOTPLUG_H
#define THEAP_HOTPLUG_H

unsigned int theap_cpu_choose(unsigned int index);
int theap_cpu_online(unsigned int cpu);
int theap_cpu_offline(unsigned int cpu);

#endif /* THEAP_HOTPLUG_H */
