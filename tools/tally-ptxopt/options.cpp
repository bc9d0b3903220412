#include "options.h"

#include "cache.h"
#include "profiles.h"

#include "tally/ptx/transforms/pass.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace tally::ptxopt {
namespace {

namespace cl = llvm::cl;

cl::OptionCategory category("tally-ptxopt options");

cl::list<std::string> inputs(cl::Positional, cl::desc("INPUT..."), cl::cat(category));
cl::opt<std::string> output("o", cl::value_desc("OUT"), cl::cat(category),
                            cl::desc("output file, a directory for several inputs, - for standard "
                                     "output; default: INPUT with .tally (bundle) or .tally.ptx in "
                                     "place of its extension, in the current directory; for "
                                     "--print-analysis and --emit=cfg-dot standard output"));
cl::opt<std::string> variants(
    "variants", cl::value_desc("KIND,..."), cl::init("default"), cl::cat(category),
    cl::desc("kinds to write: slice, guard, persistent, pause, checkpoint, or all, or none; or "
             "default: what runs without settings, guard, persistent and checkpoint, and slice "
             "where guard is refused"));
cl::list<std::string> profiles(
    "profile", cl::value_desc("FILE"), cl::cat(category),
    cl::desc(
        "what a run with TALLY_PROFILE=on has written: of kernels that it names only the kinds "
        "that their launches want; may be given several times"));
cl::opt<std::string> kernel("kernel", cl::value_desc("REGEX"), cl::cat(category),
                            cl::desc("only kernels whose whole name matches this extended regular "
                                     "expression"));
cl::opt<std::string> assumeInOrder(
    "assume-in-order", cl::value_desc("REGEX"), cl::cat(category),
    cl::desc("kernels whose whole name matches wait only for blocks of lower linear id: where the "
             "analyses cannot show it, take your word for it and record that"));
cl::opt<std::string> emitKind("emit", cl::value_desc("ptx|bundle|cfg-dot"), cl::init("bundle"),
                              cl::cat(category),
                              cl::desc("what to write; default bundle; cfg-dot is the kernels' "
                                       "control-flow graphs for Graphviz, and no variant"));
cl::opt<std::string> printAnalysis("print-analysis", cl::value_desc("NAME"), cl::cat(category),
                                   cl::desc("write what an analysis says of the kernels, and no "
                                            "variant; a wrong NAME lists all"));
cl::opt<bool> emitPtx("S", cl::cat(category), cl::desc("short for --emit=ptx"));
cl::opt<std::string> architectures("arch", cl::value_desc("sm_XX,..."), cl::cat(category),
                                   cl::desc("architectures to assemble for; default: sm_90, or the "
                                            "module's own target if that is higher"));
cl::opt<bool> noAssemble("no-assemble", cl::cat(category),
                         cl::desc("do not run ptxas; the bundle carries PTX alone"));
cl::opt<std::string> cudaPath("cuda-path", cl::value_desc("DIR"), cl::cat(category),
                              cl::desc("CUDA Toolkit whose ptxas to use; default: the one found "
                                       "at build time, then PATH"));
cl::opt<std::string> ptxasPath("ptxas", cl::value_desc("FILE"), cl::cat(category),
                               cl::desc("the ptxas to use, in place of --cuda-path's"));
cl::opt<std::string>
    coding("coding", cl::value_desc("NAME"), cl::cat(category),
           cl::desc("write variants in this coding where they have it; default, or "
                    "wherever they have not: the default one. Without it, what is "
                    "assembled is in the coding that takes the fewest registers"));
cl::opt<unsigned> pollPeriod(
    "poll-period", cl::value_desc("CYCLES"), cl::init(ptx::PollRules{}.period), cl::cat(category),
    cl::desc("how long a warp may be in a loop between two polls, by estimate; default 8192"));
cl::opt<std::string> cacheDirectory("cache-dir", cl::value_desc("DIR"), cl::cat(category),
                                    cl::desc("where machine code is kept for the next run; default "
                                             "$XDG_CACHE_HOME/tally or ~/.cache/tally"));
cl::opt<unsigned> cacheSize("cache-size", cl::value_desc("MIB"), cl::init(1024), cl::cat(category),
                            cl::desc("limit of the cache, 0 for none; default 1024"));
cl::opt<bool> noCache("no-cache", cl::cat(category), cl::desc("assemble everything anew"));
cl::opt<std::string> report("report", cl::value_desc("text|json"), cl::cat(category),
                            cl::desc("say what became of each kernel and kind"));
cl::opt<std::string> reportFile("report-file", cl::value_desc("F"), cl::cat(category),
                                cl::desc("where the report goes; default standard output"));
cl::opt<bool> strict("strict", cl::cat(category),
                     cl::desc("exit 2 if any kind of any kernel was refused or failed, but for "
                              "no-long-loop and what --profile leaves out, or if device code was "
                              "left as it is"));
cl::opt<bool> verifyEach("verify-each", cl::cat(category),
                         cl::desc("parse every variant again and check its invariants"));
cl::opt<bool> inPlace("in-place", cl::cat(category),
                      cl::desc("of a container (fatbin, object, archive, executable, shared "
                               "library): write over the input"));
cl::opt<bool> list("list", cl::cat(category),
                   cl::desc("show what is inside of the inputs and stop"));
cl::opt<bool> compileCommand("compile", cl::cat(category),
                             cl::desc("the words behind -- are a compiler's command: run it, and "
                                      "rewrite in place what it has made"));
cl::opt<std::string> linkWith("link-with", cl::value_desc("FILE"), cl::cat(category),
                              cl::desc("with --compile: add the options in FILE to a command that "
                                       "links"));
cl::opt<bool> listPasses("list-passes", cl::cat(category), cl::desc("list the kinds and stop"));

llvm::SmallVector<llvm::StringRef, 8> splitList(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ',', -1, false);
  return parts;
}

Result<ptx::KindSet> parseKinds(llvm::StringRef text) {
  if (text == "all")
    return ptx::everyKind;
  if (text == "default")
    return static_cast<ptx::KindSet>(ptx::everyKind & ~ptx::setOf(Kind::Pause));
  if (text == "none")
    return ptx::KindSet{0};
  ptx::KindSet kinds = 0;
  for (llvm::StringRef part : splitList(text)) {
    std::optional<Kind> kind = kindFromName(std::string_view(part));
    if (!kind)
      return Error{"--variants: there is no kind '" + part.str() + "'; see --list-passes"};
    kinds |= ptx::setOf(*kind);
  }
  if (!kinds)
    return Error{"--variants: no kind given; say none to write no variant"};
  return kinds;
}

Result<std::vector<std::uint32_t>> parseArchitectures(llvm::StringRef text) {
  std::vector<std::uint32_t> result;
  for (llvm::StringRef part : splitList(text)) {
    std::uint32_t number = 0;
    llvm::StringRef digits = part;
    if (!digits.consume_front("sm_") || digits.getAsInteger(10, number) || number < 50 ||
        number > 199)
      return Error{"--arch: '" + part.str() + "' is no architecture; an example is sm_90"};
    if (!llvm::is_contained(result, number))
      result.push_back(number);
  }
  return result;
}

/// Returns the path of --ptxas, else of the ptxas in --cuda-path, else of the build's, else of the
/// one in PATH; empty when there is none.
Result<std::string> findPtxas() {
  if (!ptxasPath.empty() && !llvm::sys::fs::can_execute(ptxasPath))
    return Error{"--ptxas: " + ptxasPath + " cannot be run"};
  if (!ptxasPath.empty())
    return ptxasPath.getValue();
  if (!cudaPath.empty()) {
    llvm::SmallString<128> path(cudaPath);
    llvm::sys::path::append(path, "bin", "ptxas");
    if (!llvm::sys::fs::can_execute(path))
      return Error{"--cuda-path: there is no " + std::string(path)};
    return std::string(path);
  }
  std::string built = TALLY_PTXAS_PATH;
  if (!built.empty() && llvm::sys::fs::can_execute(built))
    return built;
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return std::string();
}

/// Returns a function that tells whether a kernel's whole name matches `pattern`; empty for an
/// empty `pattern`.
Result<std::function<bool(std::string_view)>> matcher(const char *option,
                                                      const std::string &pattern) {
  if (pattern.empty())
    return std::function<bool(std::string_view)>();
  auto regex = std::make_shared<llvm::Regex>("^(" + pattern + ")$");
  std::string why;
  if (!regex->isValid(why))
    return Error{fmt::format("{}: {}", option, why)};
  return std::function<bool(std::string_view)>(
      [regex](std::string_view name) { return regex->match(llvm::StringRef(name)); });
}

Result<Emit> parseEmit() {
  if (emitPtx || emitKind == "ptx")
    return Emit::Ptx;
  if (emitKind == "bundle")
    return Emit::Bundle;
  if (emitKind == "cfg-dot")
    return Emit::CfgDot;
  return Error{"--emit: '" + emitKind + "' is not ptx, bundle or cfg-dot"};
}

std::string namesOfAnalyses() {
  std::string names;
  for (const ptx::AnalysisPrinter &each : ptx::allAnalyses())
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

Result<Options> collect() {
  Options options;
  options.inputs.assign(inputs.begin(), inputs.end());
  options.output = output;
  auto kinds = parseKinds(variants);
  if (!kinds)
    return kinds.error();
  options.kinds = *kinds;
  options.slicesUnguarded = variants == "default";
  if (!profiles.empty()) {
    auto read = Profiles::read({profiles.begin(), profiles.end()});
    if (!read)
      return read.error();
    options.profiles = std::move(*read);
    if (variants == "default")
      options.kinds |= options.profiles->wantedOfAny();
  }
  auto selects = matcher("--kernel", kernel);
  if (!selects)
    return selects.error();
  options.selects = *selects;
  auto assumes = matcher("--assume-in-order", assumeInOrder);
  if (!assumes)
    return assumes.error();
  options.assumesInOrder = *assumes;
  auto emit = parseEmit();
  if (!emit)
    return emit.error();
  options.emit = *emit;
  options.emitsBundle = emitKind.getNumOccurrences() != 0 && *emit == Emit::Bundle;
  options.inPlace = inPlace;
  options.list = list;
  options.compile = compileCommand;
  options.linkOptions = linkWith;
  options.ptxasIsChosen = !cudaPath.empty() || !ptxasPath.empty();
  if (options.inPlace && !options.output.empty())
    return Error{"--in-place and -o exclude each other"};
  if (options.compile && (options.inPlace || options.list || !options.output.empty()))
    return Error{"--compile takes none of --in-place, --list and -o"};
  if (!options.linkOptions.empty() && !options.compile)
    return Error{"--link-with goes with --compile"};
  if (!printAnalysis.empty()) {
    options.printAnalysis = ptx::analysisNamed(std::string_view(printAnalysis.getValue()));
    if (!options.printAnalysis)
      return Error{"--print-analysis: there is no '" + printAnalysis + "'; there are " +
                   namesOfAnalyses()};
  }
  auto archs = parseArchitectures(architectures);
  if (!archs)
    return archs.error();
  options.architectures = *archs;
  auto ptxas = findPtxas();
  if (!ptxas)
    return ptxas.error();
  options.ptxas = *ptxas;
  // PTX output is assembled only on request, to fill the report.
  options.assemble =
      !noAssemble && !options.describes() && (options.emit == Emit::Bundle || !archs->empty());
  if (options.assemble && options.ptxas.empty()) {
    if (!archs->empty() || !cudaPath.empty())
      return Error{"there is no ptxas in --cuda-path or PATH; see --no-assemble"};
    if (!options.compile && !options.list)
      llvm::errs() << "tally-ptxopt: no ptxas found: bundles carry PTX alone\n";
    options.assemble = false;
  }
  options.coding = coding;
  if (pollPeriod == 0)
    return Error{"--poll-period: 0 is no period"};
  options.polls.period = pollPeriod;
  if (!noCache) {
    options.cacheDirectory = cacheDirectory.empty() ? defaultCacheDirectory() : cacheDirectory;
    options.cacheBytes = std::uint64_t{cacheSize} << 20;
  }
  if (!report.empty() && report != "text" && report != "json")
    return Error{"--report: '" + report + "' is neither text nor json"};
  options.report = report.empty()     ? ReportFormat::None
                   : report == "json" ? ReportFormat::Json
                                      : ReportFormat::Text;
  options.reportFile = reportFile;
  options.strict = strict;
  options.verifyEach = verifyEach;
  options.listPasses = listPasses;
  if (options.inputs.empty() && !options.listPasses)
    return Error{"no input; see --help"};
  bool reportToOutput = options.report != ReportFormat::None &&
                        (options.reportFile.empty() || options.reportFile == "-");
  bool writesToOutput =
      options.output == "-" ||
      (options.output.empty() &&
       (options.describes() ||
        (options.inputs.size() == 1 && options.inputs.front() == "-" && !options.inPlace)));
  if (reportToOutput && writesToOutput)
    return Error{"report and output would both go to standard output; see --report-file"};
  return options;
}

} // namespace

Result<Options> parseCommandLine(int argc, const char *const *argv) {
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &stream) { stream << "tally-ptxopt " << TALLY_VERSION << '\n'; });
  std::string passes =
      "Rewrites the kernels of PTX modules into variants that can be interrupted: of PTX, of LLVM\n"
      "bitcode for NVPTX, and of the PTX inside fatbins, objects, archives, executables and "
      "shared\n"
      "libraries.\n\n"
      "Kinds:\n";
  for (const ptx::PassFacts &pass : ptx::allPasses())
    passes += fmt::format("  {:<12}{}\n", name(pass.kind), pass.help);
  passes +=
      "\nExit: 0 done (a refusal is no failure), 1 wrong input, usage or I/O, 2 something was "
      "refused\nor failed under --strict, 3 internal error.\n";
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  if (!cl::ParseCommandLineOptions(argc, argv, passes, &stream)) {
    llvm::StringRef text = llvm::StringRef(errors).rtrim();
    return Error{text.empty() ? "wrong command line" : text.str()};
  }
  return collect();
}

} // namespace tally::ptxopt
