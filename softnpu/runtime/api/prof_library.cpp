#include "runtime/api/prof_library.h"

#include <dlfcn.h>

#include <string>

#include "runtime/api/entry.h"

namespace softnpu {
namespace {

constexpr const char* kName = "libmsprofiler.so";

void* load() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&prof_symbol), &own) != 0 && own.dli_fname != nullptr) {
    const std::string path = own.dli_fname;
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos) {
      if (void* const library = dlopen((path.substr(0, slash + 1) + kName).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return dlopen(kName, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

void* prof_symbol(const char* name) {
  static void* const library = load();
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    entry::fail(name, Status(ACL_ERROR_PROFILING_FAILURE, text(kName,
                                                               " was not found beside libascendcl.so or in the library search "
                                                               "path, or lacks this function; install softnpu again")));
  }
  return found;
}

}  // namespace softnpu
