#include "service.h"

#include <algorithm>

namespace workloads {

namespace {

constexpr std::size_t flushBytes = std::size_t{128} << 20; // more than twice an H200's L2

} // namespace

Server::Server(std::unique_ptr<Inference> served, cudaStream_t stream, bool asGraph)
    : model(std::move(served)), stream(stream) {
  check(cudaMallocHost(&answer, model->answerCount() * sizeof(float)), "cudaMallocHost");
  // One run outside of any capture does the setup of first launches.
  enqueue();
  finish(stream);
  Digest digest;
  digest.add(answer, model->answerCount() * sizeof(float));
  first = digest.get();
  cudaGraph_t recorded = capture();
  check(cudaGraphGetNodes(recorded, nullptr, &nodeCount), "cudaGraphGetNodes");
  if (asGraph) {
    check(cudaGraphInstantiate(&graph, recorded, 0), "cudaGraphInstantiate");
    check(cudaGraphUpload(graph, stream), "cudaGraphUpload");
    finish(stream);
  }
  check(cudaGraphDestroy(recorded), "cudaGraphDestroy");
}

Server::~Server() {
  if (graph)
    check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  if (flushed)
    check(cudaFree(flushed), "cudaFree");
  check(cudaFreeHost(answer), "cudaFreeHost");
}

cudaGraph_t Server::capture() {
  cudaGraph_t recorded = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  enqueue();
  check(cudaStreamEndCapture(stream, &recorded), "end capture");
  return recorded;
}

void Server::enqueue() {
  if (graph) {
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    return;
  }
  model->enqueue(stream);
  check(cudaMemcpyAsync(answer, model->answer(), model->answerCount() * sizeof(float),
                        cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
}

void Server::compare() {
  Digest digest;
  digest.add(answer, model->answerCount() * sizeof(float));
  wrong += digest.get() != first;
}

std::vector<double> Server::serveClosedLoop(std::size_t least, double seconds) {
  std::vector<double> times;
  auto begin = Clock::now();
  while (times.size() < least || Microseconds(Clock::now() - begin).count() < seconds * 1e6) {
    auto started = Clock::now();
    enqueue();
    finish(stream);
    times.push_back(Microseconds(Clock::now() - started).count());
    compare();
  }
  return times;
}

RequestLog Server::serve(const std::vector<double> &arrivals, double limit, bool flush) {
  if (flush && !flushed)
    check(cudaMalloc(&flushed, flushBytes), "cudaMalloc");
  return colocation::serveOpenLoop(
      arrivals, limit, [this] { enqueue(); }, [this] { finish(stream); },
      [this, flush](bool nextIsThere) {
        compare();
        // The server overwrites the L2 only if no request waits, so that the overwriting delays no
        // request.
        if (!flush || nextIsThere)
          return;
        check(cudaMemsetAsync(flushed, 0, flushBytes, stream), "cudaMemsetAsync");
        finish(stream);
      });
}

Checked Server::checkModel() {
  enqueue();
  finish(stream);
  return model->check({answer, answer + model->answerCount()});
}

Trainer::Trainer(std::unique_ptr<Training> trained, cudaStream_t stream)
    : model(std::move(trained)), stream(stream) {
  check(cudaMallocHost(&figure, sizeof(float)), "cudaMallocHost");
}

Trainer::~Trainer() {
  if (thread.joinable())
    stop();
  check(cudaFreeHost(figure), "cudaFreeHost");
}

void Trainer::step() {
  model->enqueue(stream);
  check(cudaMemcpyAsync(figure, model->figure(), sizeof(float), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  finish(stream);
  ends.push_back(Clock::now());
  found.push_back(*figure);
  ++done;
}

void Trainer::start() {
  stopping = false;
  done = 0;
  ends.clear();
  found.clear();
  thread = std::thread([this] {
    model->reset(stream);
    do
      step();
    while (!stopping);
  });
  while (done == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Trainer::stop() {
  stopping = true;
  thread.join();
}

/// Steps done at an instant; between the ends of two steps, in proportion to the time.
double Trainer::progress(Clock::time_point at) const {
  auto next = std::upper_bound(ends.begin(), ends.end(), at);
  auto done = static_cast<double>(next - ends.begin());
  if (next == ends.begin() || next == ends.end())
    return done;
  return done + Microseconds(at - next[-1]).count() / Microseconds(next[0] - next[-1]).count();
}

double Trainer::stepsPerSecond(Clock::time_point begin, Clock::time_point end) const {
  return (progress(end) - progress(begin)) / std::chrono::duration<double>(end - begin).count();
}

} // namespace workloads
