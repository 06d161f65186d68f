// libnvrtc for the emulator: "machine code" is a shared object made by the host's C++ compiler. EMULATOR_SHIM is the path of
// shim.h, given when this file is compiled.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <unistd.h>

struct Program {
    std::string source, code, log, name;
};

static size_t count(const std::string& text, const char* what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) n++;
    return n;
}
// Beside a kernel, the most threads that it may be launched with: what its bounds say, or 256 where it has none (prelude.cu).
static void name_bounds(std::string& source) {
    static const std::string head = "extern \"C\" __global__ void", bounds = "__launch_bounds__";
    for (size_t at = 0; (at = source.find(head, at)) != std::string::npos;) {
        const size_t begin = at + head.size(), name = source.find("entry(", begin);
        if (name == std::string::npos) return;
        const std::string between = source.substr(begin, name - begin);
        const size_t found = between.find(bounds), end = between.rfind(')');
        std::string most = "(256)";
        if (found != std::string::npos && end != std::string::npos) {
            const size_t first = found + bounds.size();
            most = between.substr(first, end + 1 - first);
        }
        const std::string declared = "extern \"C\" const unsigned emulated_bounds[] = {" + most.substr(1, most.size() - 2) + "};";
        // On one line: numbers of lines in messages are the text's.
        source.insert(at, declared + " ");
        at += declared.size() + 1 + head.size();
    }
}
static std::string slurp(const std::string& path) {
    std::ifstream f(path, std::ios::binary);
    std::ostringstream s;
    s << f.rdbuf();
    return s.str();
}

extern "C" {
int nvrtcVersion(int* major, int* minor) { *major = 99; *minor = 0; return 0; }
int nvrtcGetNumSupportedArchs(int* n) { *n = 2; return 0; }
int nvrtcGetSupportedArchs(int* a) { a[0] = 80; a[1] = 90; return 0; }
int nvrtcCreateProgram(Program** p, const char* source, const char* name, int, const char* const*, const char* const*) {
    *p = new Program{source, "", "", name};
    return 0;
}
int nvrtcDestroyProgram(Program** p) { delete *p; *p = nullptr; return 0; }
int nvrtcCompileProgram(Program* p, int, const char* const*) {
    char dir[] = "/tmp/oneflow-emulator-XXXXXX";
    if (!mkdtemp(dir)) return 1;
    const std::string base = dir, cpp = base + "/k.cpp", so = base + "/k.so", log = base + "/log";
    // Threads that never wait for others need no fibers. The prelude only defines what waits.
    const size_t end = p->source.find("// The end of the prelude.");
    const std::string own = end == std::string::npos ? p->source : p->source.substr(end);
    bool fibers = false;
    for (const char* what : {"__syncthreads", "combine(", "_sync(", "emulator::", "__syncwarp"}) fibers |= count(own, what) > 0;
    // The shim has the memory under this name.
    std::string source = p->source;
    for (size_t at; (at = source.find("extern __shared__")) != std::string::npos;)
        source.erase(at, source.find(';', at) - at);
    name_bounds(source);
    {
        std::ofstream f(cpp);
        f << "#include \"" EMULATOR_SHIM "\"\n" << source
          << "\nextern \"C\" int emulated_launch(const unsigned* grid, const unsigned* block, unsigned shared, void** p) {\n"
          << "    return emulated_run([](void** p) { emulated_call(&entry, p); }, " << (fibers ? "true" : "false")
          << ", grid, block, shared, p);\n}\n"
          << "extern \"C\" void** emulated_copy(void** p) { return emulated_bind(&entry, p); }\n"
          << "extern \"C\" void emulated_words(void** p, void (*see)(void*, uint64_t), void* of) { emulated_show(&entry, p, see, of); }\n"
          << "extern \"C\" const char emulated_name[] = R\"(" << p->name << ")\";\n"
          << "extern \"C\" void emulated_free(void** p) { emulated_unbind(&entry, p); }\n";
    }
    // The shim hears of accesses that are not aligned: the sanitizer's own library is not linked.
    const std::string object = base + "/k.o";
    const std::string command = "(g++ -std=c++17 -O1 -w -c -fPIC -ffp-contract=off -fsanitize=alignment -o " + object + " " + cpp +
                                " && g++ -shared -o " + so + " " + object + ") > " + log + " 2>&1";
    const int failed = std::system(command.c_str());
    p->log = slurp(log);
    p->code = slurp(so);
    for (const std::string& f : {cpp, so, log, object}) unlink(f.c_str());
    rmdir(dir);
    return failed ? 6 : 0;
}
int nvrtcGetCUBINSize(Program* p, size_t* n) { *n = p->code.size(); return 0; }
int nvrtcGetCUBIN(Program* p, char* out) { memcpy(out, p->code.data(), p->code.size()); return 0; }
int nvrtcGetPTXSize(Program*, size_t* n) { *n = 0; return 1; }
int nvrtcGetPTX(Program*, char*) { return 1; }
int nvrtcGetProgramLogSize(Program* p, size_t* n) { *n = p->log.size() + 1; return 0; }
int nvrtcGetProgramLog(Program* p, char* out) { memcpy(out, p->log.c_str(), p->log.size() + 1); return 0; }
const char* nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
}
