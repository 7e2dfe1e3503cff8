//===- ManifestFacts.cpp - What the compiler says of its code -------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ManifestFacts.h"

#include "data/Numbers.h"

namespace fsdp::rt::data {

namespace {

std::string readHash(const JsonReader &json) {
  std::string text = json.string();
  if (!json.failed() &&
      (text.size() != 64 ||
       text.find_first_not_of("0123456789abcdef") != std::string::npos))
    json.fail("expected 64 hexadecimal digits, got '" + text + "'");
  return text;
}

} // namespace

TracedProgram readTraced(const JsonReader &json) {
  TracedProgram traced;
  traced.step = readHash(json["step"]);
  traced.optimizer = readHash(json["optimizer"]);
  json["constants"].forEach([&](const JsonReader &constant) {
    traced.constants.push_back(formatNumber(constant.extendedNumber()));
  });
  if (json.has("spec"))
    traced.spec = json["spec"].nonEmptyString();
  return traced;
}

Certificate readCertificate(const JsonReader &json) {
  Certificate certificate;
  certificate.program = readHash(json["program"]);
  certificate.issue = readHash(json["issue"]);
  certificate.order = json["order"].nonEmptyString();
  certificate.peakBytes = json["peak_bytes"].integer(0, maxBytes);
  certificate.hostBytes = json["host_bytes"].integer(0, maxBytes);
  json["transfers"].forEach([&](const JsonReader &entry) {
    Certificate::Transfer transfer;
    transfer.unit = entry["unit"].string();
    std::string phase = entry["phase"].string();
    if (!entry.failed() && phase != "forward" && phase != "backward")
      entry["phase"].fail("expected forward or backward, got '" + phase + "'");
    transfer.isBackward = phase == "backward";
    certificate.transfers.push_back(std::move(transfer));
  });
  return certificate;
}

void readPlan(const JsonReader &json) {
  for (const char *key : {"parameters", "gradients", "optimizer", "gathered",
                          "activations", "other", "workspace"})
    json[key].integer(0);
}

Bound readBound(const JsonReader &json) {
  Bound bound;
  bound.ns = json["ns"].integer(0);
  bound.limit = json["limit"].nonEmptyString();
  bound.machine = json["machine"].string();
  if (json.has("peak_flops"))
    bound.peakFlops = json["peak_flops"].integer(1);
  return bound;
}

} // namespace fsdp::rt::data
