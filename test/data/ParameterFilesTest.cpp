//===- ParameterFilesTest.cpp - Parameters as people have them ------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearProgram.h"

#include "data/File.h"

#include <cstring>

using namespace fsdp::rt::data;
using nlohmann::json;

namespace {

class ParameterFilesTest : public LinearProgram {
protected:
  struct Tensor {
    std::string name;
    std::vector<float> values;
  };
  /// weight (tied to head.weight), bias, gain.
  std::vector<Tensor> good = {
      {"weight", {1, 2, 3, 4, 5}}, {"bias", {6}}, {"gain", {7}}};

  std::string write(const std::string &name,
                    const std::vector<Tensor> &tensors) {
    std::vector<TensorSpec> specs;
    std::vector<const void *> data;
    for (const Tensor &tensor : tensors) {
      Shape shape;
      if (tensor.name.find("gain") == std::string::npos)
        shape = {int64_t(tensor.values.size())};
      specs.push_back({tensor.name, FSDP_RT_F32, shape});
      data.push_back(tensor.values.data());
    }
    std::string path = dir.file(name);
    EXPECT_OK(writeSafetensors(path, specs, data));
    return path;
  }
  std::vector<Tensor> named(const std::string &prefix) {
    std::vector<Tensor> tensors = good;
    for (Tensor &tensor : tensors)
      tensor.name = prefix + tensor.name;
    return tensors;
  }
  Words starting(const std::string &path, const Words &more = {}) {
    Words words = {"--params", path, "--data",  batches,
                   "--lr",     "0",  "--steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void expectWeight(const std::string &path, const Words &more = {}) {
    for (const char *mesh : {"1", "2"}) {
      Words words = starting(path, more);
      words.insert(words.end(), {"--save", dir.file("saved")});
      Outcome outcome = run(mesh, words);
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_EQ(floatsOf(dir.file("saved/step-00000001/params.safetensors"),
                         "weight"),
                good[0].values);
      EXPECT_OK(removeTree(dir.file("saved")));
    }
  }
  void refuse(const std::string &path, const std::string &message,
              const Words &more = {}) {
    for (const char *mesh : {"1", "2"})
      expectRefusal(mesh, starting(path, more), message);
  }
};

TEST_F(ParameterFilesTest, TiedNamesMustHoldTheSame) {
  std::vector<Tensor> both = good;
  both.push_back({"head.weight", good[0].values});
  expectWeight(write("same", both));
  for (int at : {0, 4}) {
    both.back().values = good[0].values;
    both.back().values[at] += 1;
    refuse(write("differ", both),
           "expected equal values of 'weight' and 'head.weight', which are one "
           "parameter in this program, got different ones");
  }
}

TEST_F(ParameterFilesTest, PrefixesAreToldAndTakenAway) {
  for (std::string prefix :
       {"module.", "_orig_mod.", "model.", "_orig_mod.module."}) {
    std::string path = write("prefixed", named(prefix));
    refuse(path, "the file's names begin with '" + prefix +
                     "': --strip-prefix " + prefix + " takes that away");
    expectWeight(path, {"--strip-prefix", prefix});
  }
  // Some models' heads stand outside.
  std::vector<Tensor> mixed = named("model.");
  mixed[1].name = "bias";
  std::string path = write("mixed", mixed);
  refuse(path, "--strip-prefix model. takes that away");
  expectWeight(path, {"--strip-prefix", "model."});
  // Two that would become one.
  mixed.push_back({"weight", good[0].values});
  refuse(write("twice", mixed), "expected one tensor 'weight', got ",
         {"--strip-prefix", "model."});
  refuse(write("other", named("module.")),
         "expected names that begin with 'model.' (--strip-prefix), got "
         "'module.",
         {"--strip-prefix", "model."});
  expectRefusal("1", training(1, {"--strip-prefix", "x."}),
                "--strip-prefix: expected --params FILE as well");
  expectRefusal("1", training(1, {"--add-prefix", "x."}),
                "--add-prefix: expected --params FILE as well");
}

TEST_F(ParameterFilesTest, APrefixThatTheFileLacksIsAdded) {
  std::vector<Tensor> bare = {{"weight", good[0].values}, good[1], good[2]};
  // The program knows the weight as head.weight, too.
  expectWeight(write("bare", bare), {"--add-prefix", "head."});
}

TEST_F(ParameterFilesTest, SeveralFilesAndASeedForTheRest) {
  const std::string base = write("base.safetensors", {good[2]}),
                    rest = write("rest.safetensors", {good[0], good[1]});
  expectWeight(base, {"--params", rest});
  refuse(base,
         "expected one tensor 'gain', got 'gain' in '" + base +
             "' and 'gain' in '" + base + "'",
         {"--params", base, "--params", rest});
  refuse(base, "missing 2 tensors: 'weight', 'bias' (--init seed=K beside "
               "--params draws what is missing)");
  std::vector<float> drawn;
  for (const char *mesh : {"1", "2", "2x2"}) {
    const std::string saves = dir.file(std::string("saves") + mesh);
    Outcome outcome =
        run(mesh, starting(base, {"--init", "seed=3", "--save", saves}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_CONTAINS(outcome.out + outcome.err,
                    "--init: drew 2 parameters of 6 elements that --params "
                    "lacks: 'weight', 'bias'");
    const std::string file = saves + "/step-00000001/params.safetensors";
    EXPECT_EQ(floatsOf(file, "gain"), good[2].values);
    if (drawn.empty())
      drawn = floatsOf(file, "weight");
    EXPECT_EQ(floatsOf(file, "weight"), drawn);
  }
}

TEST_F(ParameterFilesTest, AnIndexOfSeveralFiles) {
  write("model-00001-of-00002.safetensors", {good[0]});
  write("model-00002-of-00002.safetensors", {good[1], good[2]});
  json map = {{"weight", "model-00001-of-00002.safetensors"},
              {"bias", "model-00002-of-00002.safetensors"},
              {"gain", "model-00002-of-00002.safetensors"}};
  std::string path = dir.file("model.safetensors.index.json");
  auto index = [&](const json &contents) {
    writeFile(path, contents.dump());
    return path;
  };
  expectWeight(
      index({{"metadata", {{"total_size", 28}}}, {"weight_map", map}}));
  // A folder is the model in it, or an adapter.
  expectWeight(dir.path());
  ASSERT_OK(makeDirectories(dir.file("adapter")));
  write("adapter/adapter_model.safetensors", good);
  expectWeight(dir.file("adapter"));
  json changed = map;
  changed["bias"] = "model-00001-of-00002.safetensors";
  refuse(index({{"weight_map", changed}}),
         path + ": expected 'bias' in '" +
             dir.file("model-00001-of-00002.safetensors") + "', got none");
  changed["bias"] = "model-00003-of-00002.safetensors";
  refuse(index({{"weight_map", changed}}), "No such file");
  changed["bias"] = "../model.safetensors";
  refuse(index({{"weight_map", changed}}),
         "weight_map.bias: expected the name of a file beside the index");
  refuse(index({{"weight_map", json::object()}}), "expected tensors, got none");
  refuse(index({{"metadata", 1}}), "expected key 'weight_map'");
  refuse(index({{"weight_map", {{"weight", 1}}}}),
         "weight_map.weight: expected a string");
  writeFile(path, "{");
  refuse(path, path + ": ");
  // One tensor in two of the files.
  write("model-00002-of-00002.safetensors", {good[1], good[2], good[0]});
  refuse(index({{"weight_map", map}}), "expected one tensor 'weight', got ");
}

TEST_F(ParameterFilesTest, OtherFormatsAreToldWithARemedy) {
  std::string path = dir.file("model.pt");
  writeFile(path, std::string("PK\3\4", 4) + std::string(100, '\1'));
  refuse(path, path + ": expected a safetensors file, got a zip file, as "
                      "torch.save writes: convert it once, with PyTorch: "
                      "python3 -c \"import sys, torch; ");
  writeFile(path, "\x80\x02}q" + std::string(100, '\1'));
  refuse(path, "got a pickle, as torch.save writes: convert it once");
  writeFile(path, "GGUF" + std::string(100, '\3'));
  refuse(path, "got a GGUF file");
  writeFile(path, "{\"weight_map\": {}}");
  refuse(path, "got JSON: an index of several files has a name that ends with "
               ".json");
}

TEST_F(ParameterFilesTest, WhatIsWrongInAFileIsNamed) {
  std::string path = write("p", good), whole = readFile(path);
  uint64_t headerBytes = 0;
  memcpy(&headerBytes, whole.data(), 8);
  json header = json::parse(whole.substr(8, headerBytes));
  std::string data = whole.substr(8 + headerBytes);
  auto with = [&](const json &changes) {
    json changed = header;
    changed.merge_patch(changes);
    writeFile(path, safetensorsBytes(changed.dump(), data));
    return path;
  };
  json meta = header;
  meta["__metadata__"] = nullptr;
  writeFile(path, safetensorsBytes(meta.dump(), data));
  expectWeight(path);
  meta["__metadata__"] = {{"step", 3}};
  writeFile(path, safetensorsBytes(meta.dump(), data));
  refuse(path, "__metadata__.step: expected a string, got 3");
  // Contiguous: bias, gain, weight.
  refuse(with({{"weight", {{"data_offsets", {8, 32}}}}}),
         "weight.data_offsets: expected an end within the 28 bytes after the "
         "header, got 32: the file is truncated");
  refuse(with({{"weight", {{"data_offsets", {4, 24}}}}}),
         "weight.data_offsets: expected begin ");
  refuse(with({{"weight", {{"data_offsets", {28, 8}}}}}),
         "weight.data_offsets: expected [begin, end] with begin <= end");
  refuse(with({{"weight", {{"dtype", "F64"}}}}),
         "weight.data_offsets: expected 40 bytes for F64 [5], got 20");
  refuse(with({{"weight", {{"dtype", "F4"}}}}),
         "weight.dtype: expected a known");
  refuse(with({{"weight", {{"shape", {-5}}}}}), "weight.shape[0]: expected");
  refuse(with({{"weight", {{"shape", {5, 1}}}}}),
         "'weight': expected shape [5], got [5, 1]");
  writeFile(path, whole.substr(0, whole.size() - 10));
  refuse(path, "the file is truncated");
  writeFile(path, whole + std::string(16, '\0'));
  refuse(path, "16 trailing bytes that no tensor owns");
  for (size_t size : {0, 7, 60}) {
    writeFile(path, whole.substr(0, size));
    refuse(path, path + ": expected a ");
  }
  std::vector<Tensor> more = good;
  more.push_back({"extra", {1}});
  refuse(write("more", more), "unexpected 1 tensor: 'extra'");
}

} // namespace
