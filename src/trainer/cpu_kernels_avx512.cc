#define CAIRN_KERNEL_SET kAvx512Kernels
#define CAIRN_KERNEL_SET_NAME "avx512"
#include "trainer/cpu_kernels_body.h"
