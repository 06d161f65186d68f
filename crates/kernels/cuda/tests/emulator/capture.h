// Captured graphs of the emulated driver. A graph runs its nodes in an order that the seed chooses among those that their
// dependencies allow; so a dependency that nobody stated shows. EMULATOR_REFUSES_CAPTURES: none can be begun. Included by cuda.cpp.

struct Node {
    std::set<size_t> after;
    std::function<Result()> run;
    // Of work that waits for other processes: what is tried until it returns true, made anew for each launch of the graph.
    std::function<std::function<bool()>()> make;
};
struct Graph {
    std::vector<Node> nodes;
};
struct Capture {
    uint64_t id;
    int mode;
    Stream* origin;
    const void* thread;
    bool is_refused = false;
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
};
// Modes: 0 global, 1 of the thread, 2 relaxed.
static thread_local int thread_mode;

static Result refuse(const std::shared_ptr<Capture>& c, Result code) {
    c->is_refused = true;
    return code;
}
static bool is_captured(void* s) { return (uintptr_t)s > 2 && ((Stream*)s)->capture; }
static bool is_any_captured() {
    for (Stream* s : streams())
        if (s->capture) return true;
    return false;
}
static Result refuse_all(Result code) {
    for (Stream* s : streams())
        if (s->capture) refuse(s->capture, code);
    return code;
}
// A call that could break a capture: an allocation, a question about an event.
static Result unsafe_call() {
    if (thread_mode == 2) return 0;
    for (Stream* s : streams()) {
        if (!s->capture || s->capture->mode == 2) continue;
        const bool own = s->capture->thread == &thread_mode;
        if (own || (s->capture->mode == 0 && thread_mode == 0)) return refuse(s->capture, 900);
    }
    return 0;
}
static Result add_node(Stream* s, std::function<Result()> run, std::function<std::function<bool()>()> make = nullptr) {
    if (s->capture->is_refused) return 901;
    std::vector<Node>& nodes = s->capture->graph->nodes;
    nodes.push_back(Node{s->last, std::move(run), std::move(make)});
    s->last = {nodes.size() - 1};
    return 0;
}
// A stream waits for an event where one of them is captured.
static Result join(Stream* s, Event* e) {
    if ((uintptr_t)s <= 2) return refuse_all(906);
    if (!e->capture) return refuse(s->capture, 905);
    if (s->capture && s->capture != e->capture) return refuse(s->capture, 905);
    if (e->capture->is_refused) return 901;
    s->capture = e->capture;
    s->last.insert(e->nodes.begin(), e->nodes.end());
    return 0;
}
// A graph on its way.
struct Launch {
    std::shared_ptr<Graph> graph;
    std::vector<bool> done;
    std::vector<std::function<bool()>> waiting;
    Result result = 0;
};
// Returns true at the end, false where all that could go on waits for other processes.
static bool run_graph(Launch& l) {
    const std::vector<Node>& nodes = l.graph->nodes;
    std::set<size_t> stuck;
    for (;;) {
        std::vector<size_t> able;
        size_t left = 0;
        for (size_t i = 0; i < nodes.size() && able.size() < 64; i++) {
            const auto& after = nodes[i].after;
            left += !l.done[i];
            if (!l.done[i] && !stuck.count(i) && std::all_of(after.begin(), after.end(), [&](size_t k) { return l.done[k]; }))
                able.push_back(i);
        }
        if (able.empty()) return left == 0;
        const size_t next = able[draw() % able.size()];
        if (l.waiting[next] && !l.waiting[next]()) {
            stuck.insert(next);
            continue;
        }
        if (nodes[next].run && (l.result = nodes[next].run())) return true;
        l.done[next] = true;
    }
}
// All that nodes come after, and they themselves.
static std::set<size_t> before(const Graph& g, std::set<size_t> nodes) {
    std::vector<size_t> open(nodes.begin(), nodes.end());
    while (!open.empty()) {
        const size_t n = open.back();
        open.pop_back();
        for (size_t k : g.nodes[n].after)
            if (nodes.insert(k).second) open.push_back(k);
    }
    return nodes;
}
static Result issue(void* stream, Work w);

extern "C" {
Result cuThreadExchangeStreamCaptureMode(int* mode) { std::swap(*mode, thread_mode); return 0; }
Result cuStreamBeginCapture_v2(void* s, int mode) {
    ANSWER("cuStreamBeginCapture");
    LOCKED;
    static uint64_t next = 1;
    if ((uintptr_t)s <= 2 || is_captured(s) || getenv("EMULATOR_REFUSES_CAPTURES")) return 900;
    Stream* stream = (Stream*)s;
    stream->capture = std::make_shared<Capture>(Capture{next++, mode, stream, &thread_mode});
    stream->last.clear();
    return 0;
}
Result cuStreamGetCaptureInfo_v2(void* s, int* status, uint64_t* id, void*, void*, void*) {
    if (const int state = answer_of("cuStreamGetCaptureInfo")) return *status = state, 0;
    LOCKED;
    if ((uintptr_t)s <= 2) return is_any_captured() ? 906 : (*status = 0);
    const std::shared_ptr<Capture>& c = ((Stream*)s)->capture;
    *status = c ? 1 + c->is_refused : 0;
    if (c) *id = c->id;
    return 0;
}
Result cuStreamEndCapture(void* s, Graph** out) {
    LOCKED;
    *out = nullptr;
    if (!is_captured(s)) return 900;
    const std::shared_ptr<Capture> c = ((Stream*)s)->capture;
    if (c->origin != s) return refuse(c, 903);
    if (c->mode != 2 && c->thread != &thread_mode) return refuse(c, 908);
    const std::set<size_t> joined = before(*c->graph, c->origin->last);
    bool all = true;
    for (Stream* other : streams())
        if (other->capture == c) {
            for (size_t n : other->last) all = all && joined.count(n);
            other->capture = nullptr;
            other->last.clear();
        }
    if (c->is_refused) return 901;
    if (!all) return 904;
    *out = new Graph(*c->graph);
    return 0;
}
Result cuGraphGetNodes(Graph* g, void* nodes, size_t* n) { *n = g->nodes.size(); return nodes ? INVALID : 0; }
Result cuGraphInstantiateWithFlags(std::shared_ptr<Graph>** exec, Graph* g, unsigned long long) {
    *exec = new std::shared_ptr<Graph>(new Graph(*g));
    return 0;
}
Result cuGraphLaunch(std::shared_ptr<Graph>* exec, void* stream) {
    LOCKED;
    if (Result r = failed()) return r;
    const std::shared_ptr<Launch> l(new Launch{*exec});
    l->done.resize(l->graph->nodes.size());
    l->waiting.resize(l->done.size());
    bool waits = false;
    for (const Node& node : l->graph->nodes) waits = waits || node.make;
    if (waits && is_captured(stream)) return refuse(((Stream*)stream)->capture, 900);
    launches++;
    note("graph");
    // In a capture it becomes a node, which starts anew each time.
    if (!waits) return issue(stream, Work{nullptr, 0, [l] {
        l->done.assign(l->done.size(), false);
        run_graph(*l);
        return l->result;
    }});
    // In the order in which the calls were made, as all ranks launch them.
    for (size_t i = 0; i < l->done.size(); i++)
        if (l->graph->nodes[i].make) l->waiting[i] = l->graph->nodes[i].make();
    return issue(stream, Work{nullptr, 0, [l] { return l->result; }, [l] { return run_graph(*l); }});
}
Result cuGraphDestroy(Graph* g) { LOCKED; delete g; return 0; }
Result cuGraphExecDestroy(std::shared_ptr<Graph>* exec) { LOCKED; delete exec; return 0; }
}
