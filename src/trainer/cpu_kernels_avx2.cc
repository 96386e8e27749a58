#define CAIRN_KERNEL_SET kAvx2Kernels
#define CAIRN_KERNEL_SET_NAME "avx2"
#include "trainer/cpu_kernels_body.h"
