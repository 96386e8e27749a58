#define CAIRN_KERNEL_SET kBaselineKernels
#define CAIRN_KERNEL_SET_NAME "baseline"
#include "trainer/cpu_kernels_body.h"
