#ifndef MIXED_H
#define MIXED_H

#include <stdint.h>

uint32_t mixed(void);

#endif
