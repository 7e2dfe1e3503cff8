//===- BuiltinOptimizers.cpp - Optimizers by name -------------------------===//
//
// Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function is the step of a class of torch.optim 2.15 for one tensor,
// neither capturable nor differentiable, or of the paper that is named there:
// what is computed from Python's numbers is of the step, what is computed from
// tensors of the element, in the order of ATen's operations (addcmul, addcdiv)
// but for RAdam's last product.
// A state that no formula reads is left out.
//
//===----------------------------------------------------------------------===//

#include "BuiltinOptimizers.h"
#include "UpdateFormula.h"
#include "fsdp/Analysis/Contract/InputContract.h"

using namespace mlir;
using namespace mlir::fsdp;

namespace {
/// An optimizer's hyper-parameters, and the formulas that are made of them.
class Update : public UpdateFormula {
public:
  Update(OpBuilder &builder, Location loc, const OptimizerSpec &spec,
         ArrayRef<StringRef> runTimeScalars);

  /// A hyper-parameter, by its name.
  Number operator[](StringRef name) const;
  /// Whether a hyper-parameter is other than 0, or may be when it runs.
  bool has(StringRef name) const;
  bool isSet(StringRef flag) const { return spec.isSet(flag); }
  double getInitial(StringRef name) const { return spec.get(name); }

  /// The number of this step, which begins with 1.
  Number countStep();
  /// The gradient of what is made smaller.
  Number getDescent();

private:
  const OptimizerSpec &spec;
  llvm::StringMap<Number> scalars;
};
} // namespace

Update::Update(OpBuilder &builder, Location loc, const OptimizerSpec &spec,
               ArrayRef<StringRef> runTimeScalars)
    : UpdateFormula(builder, loc), spec(spec) {
  StringRef rate = scalars::learningRate.name;
  scalars.insert({rate, addScalar(rate, builder.getF32Type(), spec.get(rate))});
  for (StringRef name : runTimeScalars)
    if (name != rate)
      scalars.insert(
          {name, addScalar(name, builder.getF64Type(), spec.get(name))});
}

Number Update::operator[](StringRef name) const {
  auto scalar = scalars.find(name);
  return scalar == scalars.end() ? spec.get(name) : scalar->second;
}

bool Update::has(StringRef name) const {
  return scalars.contains(name) || spec.get(name) != 0;
}

Number Update::countStep() {
  return setState("step", addStepState("step") + 1);
}

Number Update::getDescent() {
  return isSet("maximize") ? -getGrad() : getGrad();
}

/// ATen's lerp, which is exact at both ends.
static Number lerp(Number from, Number to, Number weight) {
  return select(isGreater(0.5, weight), from + weight * (to - from),
                to - (1 - weight) * (to - from));
}

/// The running mean of squares: mul_ and addcmul_.
static Number averageSquares(Number average, Number value, Number decay) {
  return average * decay + (1 - decay) * value * value;
}

/// The gradient of the loss and of weight_decay / 2 times the parameter's
/// square.
static Number getDecayed(Update &u) {
  Number grad = u.getDescent();
  return u.has("weight_decay") ? grad + u["weight_decay"] * u.getParam() : grad;
}

namespace {
struct ParamAndGrad {
  Number param, grad;
};
} // namespace

/// Decay acts on the parameter, or on its gradient.
static ParamAndGrad decay(Update &u, bool isDecoupled) {
  if (!isDecoupled || !u.has("weight_decay"))
    return {u.getParam(), getDecayed(u)};
  return {u.getParam() * (1 - u["lr"] * u["weight_decay"]), u.getDescent()};
}

/// torch.optim.Adam and torch.optim.AdamW, whose decay is decoupled.
static void addAdam(Update &u, bool isDecoupled) {
  Number beta1 = u["beta1"], beta2 = u["beta2"];
  auto [param, grad] = decay(u, isDecoupled);
  Number average =
      u.setState("exp_avg", lerp(u.addState("exp_avg"), grad, 1 - beta1));
  Number square = u.setState(
      "exp_avg_sq", averageSquares(u.addState("exp_avg_sq"), grad, beta2));
  if (u.isSet("amsgrad"))
    square =
        u.setState("max_exp_avg_sq", max(u.addState("max_exp_avg_sq"), square));
  Number step = u.countStep();
  Number correction1 = 1 - pow(beta1, step), correction2 = 1 - pow(beta2, step);
  Number denominator = sqrt(square) / sqrt(correction2) + u["eps"];
  u.setParam(param - u["lr"] / correction1 * average / denominator);
}

/// torch.optim.SGD. With dampening the buffer begins as the first gradient;
/// without, zeros times the momentum are no different.
static void addSGD(Update &u) {
  Number grad = getDecayed(u);
  if (u.has("momentum")) {
    Number momentum = u["momentum"], added = grad;
    Number buffer = u.addState("momentum_buffer");
    if (u.has("dampening")) {
      Number share = select(isGreater(u.countStep(), 1), 1 - u["dampening"], 1);
      added = share * grad;
    }
    buffer = u.setState("momentum_buffer", buffer * momentum + added);
    grad = u.isSet("nesterov") ? grad + momentum * buffer : buffer;
  }
  u.setParam(u.getParam() - u["lr"] * grad);
}

/// torch.optim.Adagrad.
static void addAdagrad(Update &u) {
  Number grad = getDecayed(u), rate = u["lr"];
  Number sum = u.addState("sum", u.getInitial("initial_accumulator_value"));
  sum = u.setState("sum", sum + grad * grad);
  if (u.has("lr_decay"))
    rate = rate / (1 + (u.countStep() - 1) * u["lr_decay"]);
  u.setParam(u.getParam() - rate * grad / (sqrt(sum) + u["eps"]));
}

/// torch.optim.Adadelta.
static void addAdadelta(Update &u) {
  Number rho = u["rho"], eps = u["eps"], grad = getDecayed(u);
  Number square = u.addState("square_avg"), change = u.addState("acc_delta");
  square = u.setState("square_avg", averageSquares(square, grad, rho));
  Number delta = sqrt(change + eps) / sqrt(square + eps) * grad;
  u.setState("acc_delta", averageSquares(change, delta, rho));
  u.setParam(u.getParam() - u["lr"] * delta);
}

/// torch.optim.RMSprop. A variance that rounding makes negative counts as 0:
/// its root would be NaN.
static void addRMSprop(Update &u) {
  Number alpha = u["alpha"], grad = getDecayed(u), param = u.getParam();
  Number square = u.setState(
      "square_avg", averageSquares(u.addState("square_avg"), grad, alpha));
  if (u.isSet("centered")) {
    Number mean =
        u.setState("grad_avg", lerp(u.addState("grad_avg"), grad, 1 - alpha));
    square = max(square - mean * mean, 0);
  }
  Number denominator = sqrt(square) + u["eps"];
  if (!u.has("momentum"))
    return u.setParam(param - u["lr"] * grad / denominator);
  Number buffer = u.addState("momentum_buffer") * u["momentum"];
  buffer = u.setState("momentum_buffer", buffer + grad / denominator);
  u.setParam(param - u["lr"] * buffer);
}

/// torch.optim.NAdam.
static void addNAdam(Update &u) {
  Number beta1 = u["beta1"], beta2 = u["beta2"], rate = u["lr"];
  auto [param, grad] = decay(u, u.isSet("decoupled_weight_decay"));
  Number average =
      u.setState("exp_avg", lerp(u.addState("exp_avg"), grad, 1 - beta1));
  Number square = u.setState(
      "exp_avg_sq", averageSquares(u.addState("exp_avg_sq"), grad, beta2));
  Number step = u.countStep(), fade = u["momentum_decay"];
  Number mu = beta1 * (1 - 0.5 * pow(0.96, step * fade));
  Number next = beta1 * (1 - 0.5 * pow(0.96, (step + 1) * fade));
  Number product =
      u.setState("mu_product", u.addStepState("mu_product", 1) * mu);
  Number denominator = sqrt(square / (1 - pow(beta2, step))) + u["eps"];
  param = param - rate * (1 - mu) / (1 - product) * grad / denominator;
  u.setParam(param -
             rate * next / (1 - product * next) * average / denominator);
}

/// torch.optim.RAdam.
static void addRAdam(Update &u) {
  Number beta1 = u["beta1"], beta2 = u["beta2"];
  auto [param, grad] = decay(u, u.isSet("decoupled_weight_decay"));
  Number average =
      u.setState("exp_avg", lerp(u.addState("exp_avg"), grad, 1 - beta1));
  Number square = u.setState(
      "exp_avg_sq", averageSquares(u.addState("exp_avg_sq"), grad, beta2));
  Number step = u.countStep(), power = pow(beta2, step);
  Number most = 2 / (1 - beta2) - 1;
  Number length = most - 2 * step * power / (1 - power);
  Number rectified = sqrt((length - 4) * (length - 2) * most /
                          ((most - 4) * (most - 2) * length));
  Number adaptive = sqrt(1 - power) / (sqrt(square) + u["eps"]) * rectified;
  u.setParam(param - average / (1 - pow(beta1, step)) * u["lr"] *
                         select(isGreater(length, 5), adaptive, 1));
}

/// torch.optim.Adamax.
static void addAdamax(Update &u) {
  Number beta1 = u["beta1"], grad = getDecayed(u);
  Number average =
      u.setState("exp_avg", lerp(u.addState("exp_avg"), grad, 1 - beta1));
  Number largest = u.setState(
      "exp_inf", max(u.addState("exp_inf") * u["beta2"], abs(grad) + u["eps"]));
  Number rate = u["lr"] / (1 - pow(beta1, u.countStep()));
  u.setParam(u.getParam() - rate * average / largest);
}

/// Chen et al. 2023, arXiv 2302.06675, algorithm 2. NaN has NaN as its sign.
static void addLion(Update &u) {
  auto [param, grad] = decay(u, /*isDecoupled=*/true);
  Number average = u.addState("exp_avg");
  Number update = lerp(average, grad, 1 - u["beta1"]);
  Number sign =
      select(isGreater(update, 0), 1, select(isGreater(0, update), -1, update));
  u.setState("exp_avg", lerp(average, grad, 1 - u["beta2"]));
  u.setParam(param - u["lr"] * sign);
}

static void addFormulas(Update &u, const OptimizerSpec &spec) {
  switch (spec.getKind()) {
  case OptimizerKind::AdamW:
    return addAdam(u, /*isDecoupled=*/true);
  case OptimizerKind::Adam:
    return addAdam(u, u.isSet("decoupled_weight_decay"));
  case OptimizerKind::SGD:
    return addSGD(u);
  case OptimizerKind::Adagrad:
    return addAdagrad(u);
  case OptimizerKind::Adadelta:
    return addAdadelta(u);
  case OptimizerKind::RMSprop:
    return addRMSprop(u);
  case OptimizerKind::NAdam:
    return addNAdam(u);
  case OptimizerKind::RAdam:
    return addRAdam(u);
  case OptimizerKind::Adamax:
    return addAdamax(u);
  case OptimizerKind::Lion:
    return addLion(u);
  }
  llvm_unreachable("expected formulas of each optimizer");
}

func::FuncOp fsdp::createOptimizer(OpBuilder &builder, Location loc,
                                   const OptimizerSpec &spec,
                                   ArrayRef<StringRef> runTimeScalars) {
  Update update(builder, loc, spec, runTimeScalars);
  addFormulas(update, spec);
  func::FuncOp func = update.create();
  func->setAttr(names::kOptimizerSpec,
                builder.getStringAttr(spec.printConstants(runTimeScalars)));
  return func;
}
