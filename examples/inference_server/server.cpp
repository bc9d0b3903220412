#include "server.h"

#include "random.h"
#include "thread_group.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace inference_server {

namespace {

/// Best-effort work stands aside while this object lives; the destructor ends that even after an
/// exception.
class RequestScope {
public:
  RequestScope(Runtime &runtime, Client client) : runtime(runtime), client(client) {
    must(runtime.beginRequest(client), "beginning a request");
  }
  RequestScope(const RequestScope &) = delete;
  RequestScope &operator=(const RequestScope &) = delete;
  ~RequestScope() {
    // The call fails only after a fault of the device, which earlier calls have reported already.
    (void)static_cast<bool>(runtime.endRequest(client));
  }

private:
  Runtime &runtime;
  Client client;
};

} // namespace

std::vector<Arrival> poissonArrivals(int count, Seconds meanGap, int inputs, std::uint64_t seed) {
  Random random(seed);
  std::vector<Arrival> arrivals(count);
  Seconds now{0};
  for (Arrival &arrival : arrivals) {
    now += Seconds(random.exponential(meanGap.count()));
    arrival = {now, random.below(inputs)};
  }
  return arrivals;
}

double activeSeconds(std::vector<Served> served) {
  std::sort(served.begin(), served.end(),
            [](const Served &a, const Served &b) { return a.begin < b.begin; });
  double active = 0, covered = 0;
  for (const Served &each : served) {
    active += std::max(0.0, each.end - std::max(covered, each.begin));
    covered = std::max(covered, each.end);
  }
  return active;
}

Server::Server(const Session &session, const EncoderShape &shape, std::span<const float> weights,
               int workerCount, bool spin)
    : session(session), shape(shape), spin(spin),
      client(must(session.runtime().createClient(tally::runtime::Class::High, "server"),
                  "creating the server's client")) {
  DevicePtr deviceWeights = session.allocateFloats(weights.size());
  for (int i = 0; i < workerCount; ++i) {
    Stream stream = must(session.runtime().createStream(client), "creating a high-priority stream");
    workers.push_back({stream, Encoder(session, shape, deviceWeights)});
  }
  session.upload(workers.front().stream, deviceWeights, weights);
  session.synchronize(workers.front().stream);
}

void Server::waitUntil(Clock::time_point time) const {
  // A sleeping thread wakes 50 to 100 us late.
  std::this_thread::sleep_until(spin ? time - std::chrono::microseconds(300) : time);
  while (Clock::now() < time) {
  }
}

Served Server::serveOne(Worker &worker, const Arrival &arrival,
                        std::span<const std::int32_t> tokens, Clock::time_point start) {
  auto sinceStart = [start] { return Seconds(Clock::now() - start).count(); };
  Served served;
  served.input = arrival.input;
  served.intended = arrival.at.count();
  served.logits.resize(static_cast<std::size_t>(shape.batch) * shape.classes);
  waitUntil(start + std::chrono::duration_cast<Clock::duration>(arrival.at));

  served.begin = sinceStart();
  {
    RequestScope scope(session.runtime(), client);
    worker.encoder.enqueue(worker.stream, tokens, served.logits);
    session.synchronize(worker.stream);
  }
  served.end = sinceStart();
  return served;
}

std::vector<Served> Server::serve(std::span<const Arrival> arrivals,
                                  std::span<const std::vector<std::int32_t>> inputs,
                                  Clock::time_point start,
                                  const std::function<void(Stream)> &afterRequest) {
  std::vector<Served> served(arrivals.size());
  std::atomic<std::size_t> next = 0;
  ThreadGroup threads;
  for (Worker &worker : workers)
    threads.run([&] {
      for (std::size_t i = next++; i < arrivals.size(); i = next++) {
        served[i] = serveOne(worker, arrivals[i], inputs[arrivals[i].input], start);
        if (afterRequest)
          afterRequest(worker.stream);
      }
    });
  threads.join();
  return served;
}

} // namespace inference_server
