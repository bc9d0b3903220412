// Reading a compiler's command: the files that the command makes.
#include "compiler_command.h"

#include "../support/files.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace tally::ptxopt;
using Makes = CompilerCommand::Makes;
using Words = std::vector<std::string>;

TEST_CASE("commands that compile make objects") {
  CompilerCommand command = readCommand({"nvcc", "-c", "a.cu", "-o", "x/a.o", "-I", "b.cu"});
  CHECK(command.makes == Makes::Objects);
  CHECK(command.outputs == Words{"x/a.o"});
  CHECK(command.isNvcc);
  CHECK(command.compilesCuda);
  CHECK(readCommand({"nvcc", "-dc", "s/a.cu", "b.cpp"}).outputs == Words{"a.o", "b.o"});
  CHECK(readCommand({"nvcc", "--compile", "a.cu", "-odir", "d"}).outputs == Words{"d/a.o"});
  CHECK(readCommand({"nvcc", "--device-c", "a.cu", "--output-file=b.o"}).outputs == Words{"b.o"});
  CHECK(readCommand({"ccache", "/opt/bin/nvcc", "-c", "a.cu"}).outputs == Words{"a.o"});
  CHECK(readCommand({"/usr/bin/clang++-22", "-x", "cuda", "-c", "a.hip", "-oa.o"}).outputs ==
        Words{"a.o"});
  CHECK(readCommand(
            {"nvcc", "-MD", "-MT", "a.o", "-MF", "a.d", "-x", "cu", "-c", "a.txt", "-o", "a.o"})
            .makes == Makes::Objects);
}

TEST_CASE("an option takes a value where that compiler's does") {
  CHECK(readCommand({"clang++", "-c", "-Werror", "a.cu"}).outputs == Words{"a.o"});
  CHECK(readCommand({"nvcc", "-c", "-Werror", "all-warnings", "a.cu"}).outputs == Words{"a.o"});
  CHECK(readCommand({"nvcc", "-std", "c++17", "-c", "-D", "X=a.cu", "a.cu", "-t=4"}).outputs ==
        Words{"a.o"});
}

TEST_CASE("commands that link make a program, with or without sources") {
  CompilerCommand command = readCommand({"nvcc", "a.cu", "-o", "a", "-lfoo"});
  CHECK(command.makes == Makes::Program);
  CHECK(command.outputs == Words{"a"});
  CHECK(command.hasSources);
  CHECK(readCommand({"nvcc", "a.cu"}).outputs == Words{"a.out"});
  CHECK(readCommand({"nvcc", "-lib", "a.cu", "-o", "l.a"}).outputs == Words{"l.a"});
  CHECK(readCommand({"nvcc", "-shared", "-Xcompiler", "-fPIC", "a.cu", "-o", "l.so"}).hasSources);
  CompilerCommand objects = readCommand({"nvcc", "a.o", "b.a", "-o", "a"});
  CHECK(objects.makes == Makes::Program);
  CHECK_FALSE(objects.hasSources);
}

TEST_CASE("other commands make nothing to rewrite") {
  for (const char *word : {"-E", "-M", "-ptx", "--ptx", "-cubin", "-fatbin", "--version", "-dlink",
                           "--dryrun", "-S", "--help"}) {
    CAPTURE(word);
    CHECK(readCommand({"nvcc", word, "a.cu", "-o", "x"}).makes == Makes::Nothing);
  }
  for (const char *word : {"-ptx", "--fatbin", "-cubin", "-ltoir", "--optix-ir"}) {
    CAPTURE(word);
    CHECK(readCommand({"nvcc", word, "a.cu"}).deviceCodeOnly == word);
    CHECK(readCommand({"nvcc", word, "--dryrun", "a.cu"}).deviceCodeOnly.empty());
    CHECK(readCommand({"nvcc", word}).deviceCodeOnly.empty());
  }
  CHECK(readCommand({"clang++", "--cuda-device-only", "-S", "a.cu"}).deviceCodeOnly ==
        "--cuda-device-only");
  CHECK(readCommand({"clang++", "--cuda-device-only", "-c", "a.cu"}).deviceCodeOnly.empty());
  CHECK(readCommand({"nvcc", "-E", "a.cu"}).deviceCodeOnly.empty());
  CHECK(readCommand({"nvcc"}).makes == Makes::Nothing);
  CHECK(readCommand({"nvcc", "-o"}).outputs == Words{"a.out"});
}

TEST_CASE("files of options count as if their words were there") {
  tally::test::TemporaryFolder folder;
  std::string path = folder.file("options");
  std::ofstream(path) << "-c -o 'with space.o'\n-gencode arch=compute_80,code=sm_80";
  for (const Words &words :
       {Words{"nvcc", "--options-file", path, "a.cu"}, Words{"nvcc", "-optf", path, "a.cu"},
        Words{"nvcc", "@" + path, "a.cu"}}) {
    CompilerCommand command = readCommand(words);
    CHECK(command.makes == Makes::Objects);
    CHECK(command.outputs == Words{"with space.o"});
    CHECK(optionsForPtx(command) == Words{"-gencode=arch=compute_80,code=compute_80"});
  }
  std::filesystem::remove(path);
  CHECK(readCommand({"nvcc", "@" + path, "-c", "a.cu"}).outputs == Words{"a.o"});
}

TEST_CASE("PTX is asked for where a command leaves it out, and only there") {
  auto added = [](Words words) {
    words.insert(words.end(), {"-c", "a.cu"});
    return optionsForPtx(readCommand(words));
  };
  CHECK(added({"nvcc"}).empty());
  CHECK(added({"nvcc", "-arch=sm_90"}).empty());
  CHECK(added({"nvcc", "-gencode", "arch=compute_90,code=[compute_90,sm_90]"}).empty());
  CHECK(added({"nvcc", "--generate-code=arch=compute_90,code=[sm_90]"}) ==
        Words{"-gencode=arch=compute_90,code=compute_90"});
  CHECK(added({"nvcc", "-gencode", "arch=compute_80,code=sm_80", "-gencode",
               "arch=compute_80,code=sm_86", "-gencode", "arch=compute_90a,code=sm_90a", "-gencode",
               "arch=compute_75,code=compute_75"}) ==
        Words{"-gencode=arch=compute_80,code=compute_80",
              "-gencode=arch=compute_90a,code=compute_90a"});
  CHECK(added({"nvcc", "-gencode=arch=compute_90,code=sm_90",
               "-gencode=arch=compute_90,code=compute_90"})
            .empty());
  CHECK(added({"nvcc", "-arch=compute_80", "-code=sm_80"}) ==
        Words{"-gencode=arch=compute_80,code=compute_80"});
  CHECK(added({"nvcc", "-arch", "sm_80", "-code", "sm_80,compute_80"}).empty());
  CHECK(added({"nvcc", "-gencode=arch=compute_90,code=lto_90"}).empty());
  CHECK(added({"clang++", "-x", "cuda"}) == Words{"--cuda-include-ptx=all"});
  CHECK(added({"clang++", "-x", "cuda", "--no-cuda-include-ptx=all"}).empty());
  CHECK(added({"clang++", "-x", "cuda", "-fgpu-rdc"}).empty());
  CHECK(optionsForPtx(readCommand({"clang++", "-c", "a.cpp"})).empty());
}

TEST_CASE("a group of architectures is what nvcc's dry run says") {
  auto group = [](Words words) {
    words.insert(words.end(), {"-c", "a.cu"});
    return readCommand(words).archGroup;
  };
  CHECK(group({"nvcc", "-arch=all"}) == "all");
  CHECK(group({"nvcc", "--gpu-architecture", "all-major"}) == "all-major");
  CHECK(group({"nvcc", "-arch=native"}) == "native");
  CHECK(group({"nvcc", "-arch=sm_90"}).empty());
  CHECK(group({"g++", "-arch=all"}).empty());

  CompilerCommand command = readCommand({"nvcc", "-arch=all", "-c", "a.cu"});
  command.codeOptions =
      codeOptionsOfGroup("#$ gcc -D__CUDA_ARCH__=750 -D__CUDA_ARCH_LIST__=750,1000 -E -x c++");
  CHECK(optionsForPtx(command) == Words{"-gencode=arch=compute_75,code=compute_75",
                                        "-gencode=arch=compute_100,code=compute_100"});
  CHECK(codeOptionsOfGroup("#$ gcc -E").empty());
  CHECK(codeOptionsOfGroup("-D__CUDA_ARCH_LIST__=x").empty());
}

TEST_CASE("only nvcc's compiling and linking of relocatable code is taken apart") {
  CHECK(readCommand({"nvcc", "-rdc=true", "a.cu"}).linksDeviceCode);
  CHECK(readCommand({"nvcc", "--relocatable-device-code", "true", "a.cu"}).linksDeviceCode);
  CHECK_FALSE(readCommand({"nvcc", "a.cu"}).linksDeviceCode);
  CHECK_FALSE(readCommand({"nvcc", "-rdc", "false", "a.cu"}).linksDeviceCode);
  CHECK_FALSE(readCommand({"nvcc", "-rdc=true", "a.o"}).linksDeviceCode);
  CHECK_FALSE(readCommand({"nvcc", "-rdc=true", "-c", "a.cu"}).linksDeviceCode);
  CHECK_FALSE(readCommand({"nvcc", "-rdc=true", "-lib", "a.cu"}).linksDeviceCode);

  CompilerSteps steps =
      stepsOf(readCommand({"ccache", "nvcc", "-rdc=true", "-x", "cu", "s/a.cu", "-MD", "-MF", "a.d",
                           "-o", "x", "-O2", "t/a.cu", "-lfoo"}),
              "/d");
  CHECK(steps.objects == Words{"/d/0-a.o", "/d/1-a.o"});
  REQUIRE(steps.compilations.size() == 2);
  CHECK(steps.compilations[0] == Words{"ccache", "nvcc", "-rdc=true", "-x", "cu", "-MD", "-MF",
                                       "a.d", "-O2", "-lfoo", "-c", "s/a.cu", "-o", "/d/0-a.o"});
  CHECK(steps.link ==
        Words{"ccache", "nvcc", "-rdc=true", "/d/0-a.o", "-o", "x", "-O2", "/d/1-a.o", "-lfoo"});
  steps = stepsOf(readCommand({"nvcc", "-rdc=true", "b.o", "a.cu", "-odir", "y"}), "/d");
  CHECK(steps.compilations ==
        std::vector<Words>{{"nvcc", "-rdc=true", "-c", "a.cu", "-o", "/d/0-a.o"}});
  CHECK(steps.link == Words{"nvcc", "-rdc=true", "b.o", "/d/0-a.o", "-odir", "y"});
}

TEST_CASE("a file of options that names itself ends") {
  tally::test::TemporaryFolder folder;
  std::string path = folder.file("options");
  std::ofstream(path) << "-c @" << path;
  CHECK(readCommand({"nvcc", "@" + path, "a.cu", ""}).makes == Makes::Objects);
}
