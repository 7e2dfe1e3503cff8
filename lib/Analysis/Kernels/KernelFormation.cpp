//===- KernelFormation.cpp - Which ops become one kernel ------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/Kernels/KernelFormation.h"
#include "fsdp/Analysis/Contract/TensorSizes.h"
#include "fsdp/Dialect/FSDP/IR/FSDP.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::fsdp;

/// Largest value first; equally large ones stay in order.
template <typename T, typename GetValue>
static void sortByBytes(SmallVector<T> &items, GetValue getValue) {
  SmallVector<std::pair<int64_t, unsigned>> keys;
  for (auto [i, item] : llvm::enumerate(items))
    keys.push_back({-getTensorBytes(getValue(item).getType()), i});
  llvm::sort(keys);
  SmallVector<T> sorted;
  for (auto [bytes, i] : keys)
    sorted.push_back(items[i]);
  items = std::move(sorted);
}

namespace {

/// Nodes that are one kernel so far.
struct Cluster {
  SmallVector<int> nodes;
  KernelDomain domain;
  Value unit;
  bool forward = false;
  bool fusible = false;
  /// Needs nothing but numbers that the step takes.
  bool scalar = false;
  /// Makes what gathers send, and nothing else.
  bool sent = false;
  /// Whether KernelDomain::alignInnerLoops made loops the same.
  bool isAligned = false;
  /// First and last node.
  int first = 0, last = 0;
};

class Former {
public:
  Former(const StepGraph &graph, const FusionLimits &limits);

  void fuseProducers();
  void fuseSiblings();
  void fuseInsertions();
  std::vector<int> number() const;

private:
  bool tryMerge(int a, int b);
  void merge(int a, int b);
  bool isScalar(const StepGraph::Node &node) const;
  void findSent();
  bool haveSamePlace(const Cluster &a, const Cluster &b) const;
  bool connect(KernelDomain &domain, const StepGraph::Edge &edge) const;
  std::optional<KernelDomain> mergeDomains(int a, int b,
                                           bool &isConnected) const;
  bool isFoundAgain(int a, int b) const;
  bool isWorthwhile(int a, int b, const IndexSpace &space,
                    const KernelGrid &grid) const;
  bool makesCycle(int a, int b) const;
  SmallVector<Operation *> getRoots(ArrayRef<int> clusters) const;
  std::optional<KernelGrid> findGrid(KernelDomain &domain,
                                     ArrayRef<int> clusters, bool mayAlign,
                                     bool &isAligned) const;

  const StepGraph &graph;
  const FusionLimits &limits;
  std::vector<Cluster> clusters;
  /// The cluster of each node.
  std::vector<int> clusterOf;
  /// By node: the last node of all clusters that begin there or before.
  std::vector<int> reach;
};

} // namespace

Former::Former(const StepGraph &graph, const FusionLimits &limits)
    : graph(graph), limits(limits) {
  for (auto [i, node] : llvm::enumerate(graph.getNodes())) {
    Cluster &cluster = clusters.emplace_back();
    cluster.nodes = {static_cast<int>(i)};
    cluster.unit = node.unit;
    cluster.forward = node.forward;
    cluster.first = cluster.last = i;
    cluster.fusible = node.kind == ComputeKind::Elementwise ||
                      node.kind == ComputeKind::Reduction;
    if (cluster.fusible)
      cluster.domain.add(cast<linalg::GenericOp>(node.op));
    cluster.scalar = cluster.fusible && isScalar(node);
    clusterOf.push_back(i);
    reach.push_back(i);
  }
  findSent();
}

/// A cast runs whenever its gather is to begin. In one kernel with what also
/// needs something else, an update say, it would wait for that.
void Former::findSent() {
  ArrayRef<StepGraph::Node> nodes = graph.getNodes();
  for (int i = int(nodes.size()) - 1; i >= 0; --i)
    clusters[i].sent =
        !nodes[i].readers.empty() &&
        llvm::all_of(nodes[i].readers, [&](int reader) {
          return isa<AllGatherOp>(nodes[reader].op) || clusters[reader].sent;
        });
}

/// Whether @node computes numbers of numbers that the step takes, directly or
/// through nodes before it.
bool Former::isScalar(const StepGraph::Node &node) const {
  auto isNumber = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getRank() == 0;
  };
  return llvm::all_of(node.op->getResults(), isNumber) &&
         llvm::all_of(node.reads, [&](const StepGraph::Edge &edge) {
           return edge.producer < 0 ? isNumber(edge.value)
                                    : clusters[edge.producer].scalar;
         });
}

/// Reductions, and ops with a reader outside of the given clusters. In the
/// order of the program, as KernelLoops has them.
SmallVector<Operation *> Former::getRoots(ArrayRef<int> within) const {
  SmallVector<int> nodes;
  for (int c : within)
    for (int n : clusters[c].nodes) {
      const StepGraph::Node &node = graph[n];
      if (node.kind == ComputeKind::Reduction ||
          llvm::any_of(node.readers, [&](int reader) {
            return !llvm::is_contained(within, clusterOf[reader]);
          }))
        nodes.push_back(n);
    }
  llvm::sort(nodes);
  return llvm::map_to_vector(nodes, [&](int n) { return graph[n].op; });
}

bool Former::haveSamePlace(const Cluster &a, const Cluster &b) const {
  return a.fusible && b.fusible && a.forward == b.forward &&
         (!a.unit || !b.unit || a.unit == b.unit) &&
         (!limits.scalarsApart || a.scalar == b.scalar) && a.sent == b.sent &&
         a.nodes.size() + b.nodes.size() <= limits.maxOps;
}

/// Connects the points at which @edge's reader reads a value and its producer
/// writes it, both of @domain. False where they do not fit.
bool Former::connect(KernelDomain &domain, const StepGraph::Edge &edge) const {
  if (!edge.operand)
    return false;
  auto op = cast<linalg::GenericOp>(graph[edge.producer].op);
  unsigned result = cast<OpResult>(edge.value).getResultNumber();
  return domain.connect(*op.getDpsInitOperand(result), *edge.operand);
}

/// The domain of both, with everything that one reads of the other connected
/// (@isConnected: there is such a value). Else values that both read are
/// connected, where that is possible: a kernel then reads them once.
std::optional<KernelDomain> Former::mergeDomains(int a, int b,
                                                 bool &isConnected) const {
  KernelDomain merged = clusters[a].domain;
  merged.append(clusters[b].domain);
  // Reads of values from outside, to be connected if nothing else is.
  llvm::MapVector<Value, OpOperand *> outside;
  SmallVector<std::pair<OpOperand *, OpOperand *>> shared;
  for (int c : {a, b})
    for (int n : clusters[c].nodes)
      for (const StepGraph::Edge &edge : graph[n].reads) {
        int producer = edge.producer < 0 ? -1 : clusterOf[edge.producer];
        if (producer == c)
          continue;
        if (producer == a || producer == b) {
          if (!connect(merged, edge))
            return std::nullopt;
          isConnected = true;
        } else if (edge.operand) {
          auto [it, fresh] = outside.try_emplace(edge.value, edge.operand);
          if (!fresh)
            shared.push_back({it->second, edge.operand});
        }
      }
  if (isConnected)
    return merged;
  // Siblings: the largest value that both read gives the common points.
  sortByBytes(shared, [](auto &pair) { return pair.first->get(); });
  for (auto &[x, y] : shared) {
    if (clusters[a].domain.contains(x->getOwner()) ==
        clusters[a].domain.contains(y->getOwner()))
      continue;
    if (merged.connect(*x, *y))
      return merged;
    return std::nullopt;
  }
  return std::nullopt;
}

/// The loops of a kernel of the given clusters, whose ops are in @domain: as
/// they are; else with inner loops aligned, if @mayAlign; else, where the
/// target sweeps rows, those of a sweep. @isAligned is set where loops were
/// aligned.
std::optional<KernelGrid> Former::findGrid(KernelDomain &domain,
                                           ArrayRef<int> within, bool mayAlign,
                                           bool &isAligned) const {
  SmallVector<Operation *> roots = getRoots(within);
  if (std::optional<KernelGrid> grid = domain.getGrid(roots))
    return grid;
  if (mayAlign) {
    KernelDomain aligned = domain;
    aligned.alignInnerLoops(roots);
    if (std::optional<KernelGrid> grid = aligned.getGrid(roots)) {
      domain = std::move(aligned);
      isAligned = true;
      return grid;
    }
  }
  if (!limits.sweeps)
    return std::nullopt;
  SmallVector<Operation *> sums;
  auto isRead = [&](Operation *root) {
    return llvm::any_of(graph[graph.lookup(root)].readers, [&](int reader) {
      return llvm::is_contained(within, clusterOf[reader]);
    });
  };
  return domain.findSweep(roots, sums, isRead, isAligned);
}

/// Whether a kernel of both with loops @grid, atoms of @space, has enough work
/// items.
bool Former::isWorthwhile(int a, int b, const IndexSpace &space,
                          const KernelGrid &grid) const {
  int64_t items = space.getTotalSize(grid.items),
          work = items * space.getTotalSize(grid.inner);
  if (items >= limits.minItems || work <= limits.smallWork)
    return true;
  // Few items are no loss where there were no more before.
  for (int c : {a, b}) {
    KernelDomain domain = clusters[c].domain;
    bool isAligned = false;
    auto before = findGrid(domain, {c}, /*mayAlign=*/false, isAligned);
    if (!before || domain.getSpace().getTotalSize(before->items) > items)
      return false;
  }
  return true;
}

/// Whether KernelLoops finds a grid for a kernel of both, whose domain it makes
/// of all ops at once, and aligns once. mergeDomains and tryMerge did so merge
/// by merge, each for the roots that there were.
bool Former::isFoundAgain(int a, int b) const {
  SmallVector<int> nodes(clusters[a].nodes);
  llvm::append_range(nodes, clusters[b].nodes);
  llvm::sort(nodes);
  KernelDomain domain;
  llvm::EquivalenceClasses<Operation *> parts;
  for (int n : nodes) {
    domain.add(cast<linalg::GenericOp>(graph[n].op));
    parts.insert(graph[n].op);
  }
  llvm::MapVector<Value, SmallVector<OpOperand *>> readers;
  for (int n : nodes)
    for (const StepGraph::Edge &edge : graph[n].reads) {
      if (!edge.operand)
        continue;
      if (edge.producer < 0 ||
          !llvm::is_contained({a, b}, clusterOf[edge.producer])) {
        readers[edge.value].push_back(edge.operand);
        continue;
      }
      if (!connect(domain, edge))
        return false;
      parts.unionSets(graph[edge.producer].op, graph[n].op);
    }
  SmallVector<SmallVector<OpOperand *>> siblings;
  for (auto &[value, operands] : readers)
    siblings.push_back(std::move(operands));
  sortByBytes(siblings, [](auto &operands) { return operands.front()->get(); });
  domain.connectReaders(siblings, parts);
  bool isAligned = false;
  return findGrid(domain, {a, b}, /*mayAlign=*/true, isAligned).has_value();
}

/// Whether a path leads from one of the two through a third back into them.
/// Clusters are followed as a whole, and no further than to a node which no
/// cluster has on both sides: no path leads back over it.
bool Former::makesCycle(int a, int b) const {
  int last = std::max(clusters[a].last, clusters[b].last);
  while (reach[last] != last)
    last = reach[last];
  llvm::SmallDenseSet<int, 32> seen;
  SmallVector<int> worklist;
  auto visit = [&](int c) {
    if (clusters[c].first <= last && seen.insert(c).second)
      worklist.push_back(c);
  };
  for (int c : {a, b})
    for (int n : clusters[c].nodes)
      for (int reader : graph[n].readers)
        if (clusterOf[reader] != a && clusterOf[reader] != b)
          visit(clusterOf[reader]);
  while (!worklist.empty())
    for (int n : clusters[worklist.pop_back_val()].nodes)
      for (int reader : graph[n].readers) {
        int c = clusterOf[reader];
        if (c == a || c == b)
          return true;
        visit(c);
      }
  return false;
}

bool Former::tryMerge(int a, int b) {
  if (a == b || !haveSamePlace(clusters[a], clusters[b]))
    return false;
  bool isConnected = false;
  std::optional<KernelDomain> merged = mergeDomains(a, b, isConnected);
  if (!merged)
    return false;
  bool isAligned = clusters[a].isAligned || clusters[b].isAligned;
  std::optional<KernelGrid> grid =
      findGrid(*merged, {a, b}, /*mayAlign=*/isConnected, isAligned);
  bool asksLoops = isAligned || (grid && !grid->swept.empty());
  if (!grid || !isWorthwhile(a, b, merged->getSpace(), *grid) ||
      (asksLoops && !isFoundAgain(a, b)) || makesCycle(a, b))
    return false;
  clusters[a].isAligned = isAligned;
  clusters[a].domain = std::move(*merged);
  merge(a, b);
  return true;
}

/// All of @b becomes part of @a, but for its domain.
void Former::merge(int a, int b) {
  Cluster &into = clusters[a], &from = clusters[b];
  llvm::append_range(into.nodes, from.nodes);
  llvm::sort(into.nodes);
  if (!into.unit)
    into.unit = from.unit;
  into.first = std::min(into.first, from.first);
  into.last = std::max(into.last, from.last);
  for (int i = into.first; i <= into.last && reach[i] < into.last; ++i)
    reach[i] = into.last;
  for (int n : from.nodes)
    clusterOf[n] = a;
  from = Cluster();
}

/// Each op joins the kernels of what it reads, largest value first.
void Former::fuseProducers() {
  for (auto [i, node] : llvm::enumerate(graph.getNodes())) {
    if (!clusters[clusterOf[i]].fusible)
      continue;
    SmallVector<const StepGraph::Edge *> edges;
    for (const StepGraph::Edge &edge : node.reads)
      if (edge.producer >= 0 && edge.operand)
        edges.push_back(&edge);
    sortByBytes(edges, [](auto *edge) { return edge->value; });
    for (const StepGraph::Edge *edge : edges)
      tryMerge(clusterOf[edge->producer], clusterOf[i]);
  }
}

/// Kernels that read the same value at the same points become one.
void Former::fuseSiblings() {
  llvm::MapVector<Value, SmallVector<int>> readers;
  for (auto [i, node] : llvm::enumerate(graph.getNodes()))
    if (clusters[clusterOf[i]].fusible)
      for (const StepGraph::Edge &edge : node.reads)
        if (edge.operand)
          readers[edge.value].push_back(i);
  for (auto &[value, nodes] : readers)
    for (int n : llvm::drop_begin(nodes))
      tryMerge(clusterOf[nodes.front()], clusterOf[n]);
}

/// An insert_slice joins the kernel of the one that makes its destination or
/// its source, if nothing else reads that: the tensor is then copied once for
/// all of them, and no kernel reads parts of it that are not written yet. No
/// path leads from the first through a third back, since the second is its only
/// reader.
void Former::fuseInsertions() {
  for (auto [i, node] : llvm::enumerate(graph.getNodes())) {
    if (!isa<tensor::InsertSliceOp>(node.op))
      continue;
    for (const StepGraph::Edge &edge : node.reads) {
      if (edge.producer < 0 ||
          !isa<tensor::InsertSliceOp>(graph[edge.producer].op))
        continue;
      int a = clusterOf[edge.producer], b = clusterOf[i];
      const Cluster &first = clusters[a], &second = clusters[b];
      bool isOnlyReader =
          llvm::all_of(graph[edge.producer].readers,
                       [&, reader = int(i)](int r) { return r == reader; });
      if (a != b && isOnlyReader && first.forward == second.forward &&
          first.unit == second.unit && first.sent == second.sent &&
          first.nodes.size() + second.nodes.size() <= limits.maxOps)
        merge(a, b);
    }
  }
}

std::vector<int> Former::number() const {
  std::vector<int> kernels(clusterOf.size(), -1);
  llvm::SmallDenseMap<int, int> numbers;
  for (auto [i, node] : llvm::enumerate(graph.getNodes()))
    if (node.kind != ComputeKind::Boundary)
      kernels[i] =
          numbers.try_emplace(clusterOf[i], numbers.size()).first->second;
  return kernels;
}

std::vector<int> fsdp::formKernels(const StepGraph &graph,
                                   const FusionLimits &limits) {
  Former former(graph, limits);
  former.fuseProducers();
  former.fuseSiblings();
  former.fuseInsertions();
  return former.number();
}
