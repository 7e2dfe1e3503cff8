#===- semantics.py - Steps whose gradients PyTorch decides ---------------===#
#
# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===----------------------------------------------------------------------===#
"""Small modules with torch.no_grad, custom autograd functions, hooks and state.

Each function below returns what py: functions do.
"""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def weigh(y):
    """A scalar in which every element counts differently."""
    w = torch.linspace(0.1, 2, y.numel()).cos().view(y.shape).to(y.dtype)
    return ((1.3 * y + 0.2 * y.square()) * w).mean()


class Two(nn.Module):
    """Two layers; `forward` is a function of (module, x)."""

    def __init__(self, forward, **tensors):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)
        self.function = forward
        for name, value in tensors.items():
            self.register_buffer(name, value)

    def forward(self, x):
        return self.function(self, x)


def two(forward, **tensors):
    return lambda: (Two(forward, **tensors), (torch.randn(5, 4),))


def under(context):
    def forward(m, x):
        with context():
            t = m.b(x).exp()
        return weigh(m.a(x) * t + m.b(x))
    return two(forward)


def enabled_inside():
    """no_grad outside, enable_grad inside."""
    def forward(m, x):
        with torch.no_grad():
            t = m.b(x)
            with torch.enable_grad():
                s = m.a(x) * t
        return weigh(s)
    return two(forward)()


def toggled():
    def forward(m, x):
        torch.set_grad_enabled(False)
        t = m.b(x)
        torch.set_grad_enabled(True)
        return weigh(m.a(x) * t)
    return two(forward)()


def decorated_generator():
    class Teacher(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 3)

        @torch.no_grad()
        def parts(self, x):
            yield self.l(x).tanh()
            yield self.l(x).exp()

        def forward(self, x):
            return weigh(self.l(x) * sum(self.parts(x)))
    return Teacher(), (torch.randn(5, 4),)


def detached_partly():
    def forward(m, x):
        y = m.a(x)
        z = y.clone()
        z[:, 0] = y[:, 0].detach()
        return weigh(z * m.b(x).data + y.detach().requires_grad_().sum())
    return two(forward)()


def preference():
    """Direct preference optimisation: the reference model is not trained."""
    policy = nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11))
    reference = copy.deepcopy(policy)

    def score(model, ids):
        logits = model(ids).log_softmax(-1)
        return logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1).sum(-1)

    def loss(m, chosen, rejected):
        with torch.inference_mode():
            other = score(m[1], chosen) - score(m[1], rejected)
        own = score(m[0], chosen) - score(m[0], rejected)
        return -functional.logsigmoid(0.3 * (own - other.clone())).mean()

    return nn.ModuleList([policy, reference]), {
        "chosen": torch.randint(11, (3, 5)),
        "rejected": torch.randint(11, (3, 5))}, loss


def teacher_of_buffers():
    def forward(m, x):
        with torch.no_grad():
            m.t.lerp_(m.a.weight, 0.1)
        return functional.mse_loss(m.a(x), functional.linear(x, m.t).tanh())
    return two(forward, t=torch.randn(3, 4))()


# Custom autograd functions.

class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Scale(torch.autograd.Function):
    """A gradient scaled by a number, another one by a saved tensor."""

    @staticmethod
    def forward(ctx, x, y, factor, name=None):
        ctx.save_for_backward(y)
        ctx.factor = factor
        return x * 1.0, y * x

    @staticmethod
    def backward(ctx, g, h):
        y, = ctx.saved_tensors
        return g * ctx.factor, h * y.sign(), None, None


class NewStyle(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, low):
        return x.clamp(min=low)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.low = inputs[1]

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * torch.where(x > ctx.low, 1.0, 0.1), None


class Written(torch.autograd.Function):
    """Writes to its input, and says so; one output has no gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        index = x.argmax(-1)
        ctx.mark_non_differentiable(index)
        return x.mul_(2), index

    @staticmethod
    def backward(ctx, g, _):
        return 3 * g


class Twice(torch.autograd.Function):
    """Its backward is itself differentiable."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 2

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2.5 * x * g


def straight_through():
    return two(lambda m, x: weigh(functional.linear(
        x, Round.apply(m.a.weight * 8) / 8, m.a.bias)))()


def scaled():
    def forward(m, x):
        y, z = Scale.apply(m.a(x), m.b(x), -0.3, "reverse")
        return weigh(y) + weigh(z)
    return two(forward)()


def new_style():
    return two(lambda m, x: weigh(NewStyle.apply(m.a(x), 0.1)))()


def mapped():
    return two(lambda m, x: weigh(torch.vmap(
        lambda row: NewStyle.apply(row, 0.1).cumsum(0))(m.a(x))))()


def written():
    def forward(m, x):
        y, index = Written.apply(m.a(x) + 0)
        return weigh(y + index.unsqueeze(-1))
    return two(forward)()


def penalty():
    """A gradient inside of the step, differentiated again."""
    def forward(m, x):
        x = x.clone().requires_grad_()
        y = Twice.apply(m.a(x)).sum()
        g, = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum(-1).sqrt().sub(1).square().mean() + weigh(m.b(x))
    return two(forward)()


def inner_gradient():
    """A gradient inside of the step that is only used as numbers."""
    def forward(m, x):
        y = m.a(x)
        g, = torch.autograd.grad(y.square().sum(), m.a.weight,
                                 retain_graph=True)
        return weigh(y) + weigh(functional.linear(x, g.detach()) * m.b(x))
    return two(forward)()


def functional_gradient():
    def forward(m, x):
        g = torch.func.grad(lambda w: weigh(functional.linear(x, w)))(
            m.a.weight)
        return weigh(functional.linear(x, g) + m.b(x))
    return two(forward)()


def with_checkpoint(reentrant):
    def make():
        def forward(m, x):
            x = m.a(x)
            y = checkpoint(lambda t: Round.apply(m.c(t).tanh() * 8),
                           x, use_reentrant=reentrant)
            return weigh(y + x)
        module = Two(forward)
        module.c = nn.Sequential(nn.Linear(3, 3), nn.GELU())
        return module, (torch.randn(5, 4),)
    return make


# Hooks.

def hooked(register):
    """A module after `register(module)` with a plain forward."""
    def make():
        module = Two(lambda m, x: weigh(m.a(x) * m.b(x).tanh()))
        register(module)
        return module, (torch.randn(5, 4),)
    return make


def _post_accumulate(m):
    def halve(p):
        p.grad.mul_(0.5)
    m.a.weight.register_post_accumulate_grad_hook(halve)


def _by_closure(m):
    # A hook that looks at another parameter, and one that counts.
    weight = m.b.weight
    m.a.weight.register_hook(lambda g: g + 0.1 * weight)


def _two_hooks(m):
    m.a.weight.register_hook(lambda g: g * 2)
    m.a.weight.register_hook(lambda g: g + 1)


def _gradient_input(m):
    m.a.register_full_backward_hook(
        lambda mod, gi, go: tuple(None if g is None else g * 0.5 for g in gi))
    m.b.register_full_backward_pre_hook(
        lambda mod, go: tuple(g.clamp(-1e-3, 1e-3) for g in go))


def hooked_below():
    """Hooks of modules whose inputs have gradients."""
    m = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    _gradient_input(nn.ModuleDict({"a": m[2], "b": m[0]}))
    m[1].register_forward_pre_hook(lambda mod, args: (args[0] * 1.5,))
    m[1].register_forward_hook(lambda mod, args, out: out + args[0])
    return m, (torch.randn(5, 4),), lambda m, x: weigh(m(x))


def hooked_between():
    """Hooks and retain_grad of tensors in the middle, and by multi_grad."""
    def forward(m, x):
        y, z = m.a(x), m.b(x)
        y.retain_grad()
        y.register_hook(lambda g: g.sign() * 1e-2)
        z.register_hook(lambda g: g * (g.abs() > 1e-3))
        return weigh(y * z)
    return two(forward)()


# State.

def counted_in_buffer():
    def forward(m, x):
        m.n = m.n + 1
        m.mean.copy_(0.9 * m.mean + 0.1 * m.a(x).detach().mean(0))
        return weigh((m.a(x) - m.mean) * 0.9 ** m.n)
    return two(forward, n=torch.zeros((), dtype=torch.int64),
               mean=torch.zeros(3))()


def written_by_view():
    def forward(m, x):
        y = m.a(x)
        with torch.no_grad():
            m.q[1:3] = y[:2]
            m.q[0].add_(1)
            m.q.view(-1)[-1] = 0.5
        return weigh(y @ m.q.t())
    return two(forward, q=torch.randn(4, 3))()


def swapped():
    def forward(m, x):
        m.p, m.q = m.q, m.p
        return weigh(m.a(x) * m.p)
    return two(forward, p=torch.randn(3), q=torch.randn(3))()


def not_persistent():
    def make():
        module = Two(lambda m, x: _update(m) + weigh(m.a(x) * m.r))
        module.register_buffer("r", torch.ones(3), persistent=False)
        return module, (torch.randn(5, 4),)

    def _update(m):
        m.r = m.r * 0.5
        return 0
    return make()


def stored_for_a_look():
    """Attributes that nobody reads again are not state."""
    def forward(m, x):
        m.last = m.a(x)
        m.calls = getattr(m, "calls", 0) + 1
        m.text = f"{m.calls / 2} {m.calls}"
        m.seen = {"norm": m.last.detach().norm()}
        m.aux = [m.last.square().mean()]
        return weigh(m.last) + 0.1 * m.aux[0]
    return two(forward)()


def cached_table():
    """Computed in the first step from nothing but shapes."""
    def forward(m, x):
        if not hasattr(m, "table"):
            m.table = torch.linspace(0, 1, x.shape[0]).unsqueeze(-1)
        return weigh(m.a(x) * m.table)
    return two(forward)()


def gathered_in_list():
    """Parameters beside the module's own dictionary, as nn.LSTM keeps them."""
    def make():
        module = Two(lambda m, x: weigh(functional.linear(x, *m.weights)))
        module.weights = [module.a.weight, module.a.bias]
        return module, (torch.randn(5, 4),)
    return make()


def unread_gradient_in_buffer():
    """PyTorch keeps the graph, and never goes through it."""
    def forward(m, x):
        y = m.a(x)
        m.seen.copy_(y.mean(0))
        return weigh(y)
    return two(forward, seen=torch.zeros(3))()


# Types, names, and operations on which torch-mlir crashes.

class Images(nn.Module):
    """Every kind of arithmetic on bytes, some of which wraps around."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3)
        self.register_buffer("k", torch.tensor([250, 3, 128],
                                               dtype=torch.uint8))
        self.register_buffer("t", 21 * torch.arange(
            12, dtype=torch.uint8).reshape(4, 3))

    def forward(self, images, classes):
        self.t.add_(17)
        self.k.copy_(self.k * 3 + 5)
        y = self.c((images.float() / 255 - 0.5) / 0.2).mean((2, 3))
        wholes = [images > 130, images // 7, images % 9, images << 1, ~images,
                  images >> 3, images - 200, images & 15, -images, images ** 2,
                  images.sort(-1).values, images.argmax(-1), images.amax(-1),
                  torch.minimum(images[:, :1], images[:, 1:2]), images / 3,
                  torch.where(images > 100, images, images + 9),
                  (images.float() * 1.7).to(torch.uint8),
                  self.t[classes.long()], images.to(torch.int32).cumsum(-1)]
        m = sum((i + 1) * w.float().mean() for i, w in enumerate(wholes))
        return functional.cross_entropy(y, classes.long()) + (
            1e-3 * m * y.mean())


def images():
    return Images(), {"images": torch.randint(0, 256, (2, 3, 6, 6),
                                              dtype=torch.uint8),
                      "classes": torch.tensor([1, 3], dtype=torch.uint8)}


def byte_table():
    def forward(m, x):
        return weigh(m.a(x) * (m.table // 2 > 50)) + (
            m.table * 2).float().mean() * m.a.weight.mean()

    module, inputs = two(forward)()
    module.table = torch.tensor([200, 3, 128], dtype=torch.uint8)
    return module, inputs


def signed_bytes():
    return two(lambda m, x: weigh(m.a(x) * m.w.float() / 20),
               w=torch.tensor([-128, 127, 3], dtype=torch.int8))()


def largest_of_one_row():
    def forward(m, x):
        y = m.a(x[:1])
        return weigh(torch.fmax(y, torch.zeros(3)) + torch.fmin(y, m.b(x[:1])))
    return two(forward)()


def entropy():
    """xlogy of one tensor with itself, weighted by a table."""
    def forward(m, x):
        p = m.a(x).softmax(-1)
        q = m.a.bias.abs() + 0.1
        table = torch.tensor([1.0, 2.0, 0.5])
        return -(torch.xlogy(p, p) * table).sum() + (
            torch.xlogy(q, q) * table).sum()
    return two(forward)()


def odd_names():
    class Names(nn.Module):
        def __init__(self):
            super().__init__()
            names = ["in", "global", "def", 'a"b', "c'd", "e\\f", "g\nh", "\x1b[31m",
                     "größe", "i j", "self"]
            self.of = nn.ModuleDict({n: nn.Linear(4, 4) for n in names})
            for i, name in enumerate(names):
                self.register_buffer(f"b{name}", torch.ones(4) * i)

        def forward(self, x):
            for name, layer in self.of.items():
                x = layer(x) * getattr(self, f"b{name}") + 1
            return weigh(x)
    return Names(), (torch.randn(2, 4),)


def classes_without_a_table():
    """one_hot is bounded by its classes."""
    layer = nn.Linear(5, 3)
    return layer, {"index": torch.tensor([1, 4, 0])}, (
        lambda m, index: weigh(m(functional.one_hot(index, 5).float())))


def profiled():
    def forward(m, x):
        with torch.profiler.record_function("a"):
            y = m.a(x)
        return weigh(y)
    return two(forward)()


def pooled():
    """Over a dimension that lies apart, as after attention."""
    return two(lambda m, x: weigh(functional.adaptive_avg_pool1d(
        m.a(x).unsqueeze(0).mT, 1)))()


def compiled():
    """What the user compiles is exported as it was written."""
    return torch.compile(nn.Linear(4, 3)), (torch.randn(5, 4),), (
        lambda m, x: weigh(m(x)))


STEPS = {
    "profiled": profiled, "compiled": compiled, "pooled": pooled,
    "images": images, "byte_table": byte_table, "signed_bytes": signed_bytes,
    "largest_of_one_row": largest_of_one_row, "entropy": entropy,
    "odd_names": odd_names,
    "classes_without_a_table": classes_without_a_table,
    "no_grad": under(torch.no_grad),
    "set_grad": under(lambda: torch.set_grad_enabled(False)),
    "enabled_inside": enabled_inside, "toggled": toggled,
    "decorated_generator": decorated_generator,
    "detached_partly": detached_partly, "preference": preference,
    "teacher_of_buffers": teacher_of_buffers,
    "straight_through": straight_through, "scaled": scaled,
    "new_style": new_style, "mapped": mapped, "written": written,
    "penalty": penalty, "inner_gradient": inner_gradient,
    "functional_gradient": functional_gradient,
    "checkpointed": with_checkpoint(False),
    "checkpointed_reentrant": with_checkpoint(True),
    "post_accumulate": hooked(_post_accumulate),
    "hook_by_closure": hooked(_by_closure), "two_hooks": hooked(_two_hooks),
    "module_hooks": hooked(_gradient_input), "hooked_below": hooked_below,
    "hooked_between": hooked_between,
    "counted_in_buffer": counted_in_buffer,
    "written_by_view": written_by_view, "swapped": swapped,
    "not_persistent": not_persistent,
    "stored_for_a_look": stored_for_a_look, "cached_table": cached_table,
    "gathered_in_list": gathered_in_list,
    "unread_gradient_in_buffer": unread_gradient_in_buffer,
}


def __getattr__(name):
    """A step as a function of this module, for py:semantics:NAME."""
    if name in STEPS:
        return STEPS[name]
    raise AttributeError(name)
