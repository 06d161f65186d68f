// A driver that does nothing: with it NVIDIA's cuDNN compiles plans for GPUs that are not there.
#include <stddef.h>

static int something;
static int place(void **to) {
    *to = &something;
    return 0;
}

int cuInit(unsigned flags) { return (int)flags * 0; }
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
int cuGetErrorString(int code, const char **text) {
    *text = code ? "there is no driver" : "no error";
    return 0;
}
int cuGetErrorName(int code, const char **text) { return cuGetErrorString(code, text); }
int cuLibraryLoadData(void **library) { return place(library); }
int cuLibraryGetKernel(void **kernel) { return place(kernel); }
int cuKernelGetFunction(void **function) { return place(function); }
int cuModuleLoadData(void **module) { return place(module); }
int cuModuleLoadDataEx(void **module) { return place(module); }
int cuModuleGetFunction(void **function) { return place(function); }
int cuKernelSetAttribute(void) { return 0; }
int cuFuncSetAttribute(void) { return 0; }
int cuLibraryUnload(void) { return 0; }
int cuModuleUnload(void) { return 0; }
int cuKernelGetAttribute(int *value) { return *value = 0; }
int cuFuncGetAttribute(int *value) { return *value = 0; }

// 100: there is no device.
#define ABSENT(name) \
    int name(void) { return 100; }
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxSetCurrent)
ABSENT(cuCtxGetDevice)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxSetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuStreamGetCtx)
ABSENT(cuLinkCreate)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkDestroy)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuDeviceGet)
ABSENT(cuDeviceGetCount)
ABSENT(cuDeviceGetAttribute)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuOccupancyMaxActiveClusters)
ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
ABSENT(cuTensorMapEncodeTiled)
ABSENT(cuTensorMapEncodeIm2col)
ABSENT(cuDevicePrimaryCtxRelease)
ABSENT(cuDevicePrimaryCtxReset)
ABSENT(cuDevicePrimaryCtxRetain)
ABSENT(cuGetExportTable)
ABSENT(cuLinkAddData_v2)
ABSENT(cuLinkAddFile_v2)
ABSENT(cuLinkCreate_v2)
ABSENT(cuMemcpyDtoH_v2)
ABSENT(cuModuleGetGlobal_v2)
ABSENT(cuModuleLoadFatBinary)
ABSENT(cuStreamGetGreenCtx)
ABSENT(cuStreamSynchronize)
