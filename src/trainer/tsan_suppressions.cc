// What ThreadSanitizer is told to leave out, in every program that links libtorch: libraries that were not compiled for it. It sees
// neither OpenMP's barriers, gloo's hand-overs and autograd's queues in them, nor the counts by which tensors and exceptions find
// their last owner, nor that they locked what one of their headers unlocks. Our own kernels run on one thread there (see
// CMakeLists.txt); that they give the same on several is tested by their results.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgomp.so\n"
         "called_from_lib:libtorch_cpu.so\n"
         "race:libopenblas.so\n"
         "race:libgloo.so\n"
         "race:torch/csrc/autograd/custom_function.h\n"
         "mutex:c10::RegistrationHandleRAII\n"
         "race:c10::TensorImpl::~TensorImpl\n"
         "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:std::runtime_error::~runtime_error\n";
}
