//===- ArenaFirstFit.cpp - Each buffer as low as it fits ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ArenaLives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::fsdp;
using llvm::ArrayRef;

/// Of traced steps, 16 to 64 are equally fast.
constexpr int kWindows = 32;

FirstFit::FirstFit(const ArenaLives &lives)
    : lives(lives), windows(kWindows), next(kWindows) {
  int last = 0;
  for (int i = 0; i != lives.size(); ++i)
    last = std::max(last, lives.getEnd(i));
  windowLength = llvm::divideCeil(last + 1, kWindows);
}

int64_t FirstFit::place(ArrayRef<int> order, std::vector<int64_t> &offsets) {
  offsets.resize(lives.size());
  for (std::vector<Placed> &window : windows)
    window.clear();
  int64_t total = 0;
  for (int buffer : order) {
    int64_t offset = 0, size = lives.getSize(buffer);
    int begin = lives.getBegin(buffer), end = lives.getEnd(buffer);
    int first = begin / windowLength, last = end / windowLength;
    std::fill(next.begin() + first, next.begin() + last + 1, 0);
    // What has been passed in a window stays below: offsets only grow. Around,
    // until no window moves it any more.
    for (int w = first, quiet = 0; quiet <= last - first;
         w = w == last ? first : w + 1) {
      ArrayRef<Placed> window = windows[w];
      size_t &i = next[w];
      ++quiet;
      for (; i != window.size() && window[i].offset < offset + size; ++i) {
        const Placed &other = window[i];
        if (offset < other.top && begin <= other.end && other.begin <= end &&
            lives.areTogether(buffer, other.buffer)) {
          offset = other.top;
          quiet = 1;
        }
      }
    }
    total = std::max(total, offset + size);
    offsets[buffer] = offset;
    for (int w = first; w <= last; ++w)
      windows[w].insert(llvm::upper_bound(windows[w], offset,
                                          [](int64_t o, const Placed &other) {
                                            return o < other.offset;
                                          }),
                        {offset, offset + size, begin, end, buffer});
  }
  return total;
}
