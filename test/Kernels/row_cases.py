"""Steps written by hand that update rows of a table one after another, as many as CUDA devices group by row."""

from cases import case, get_cases  # noqa: F401 (of those here)
from accumulation_loops import loop
from step import Value, tensor

ROWS, COLUMNS = 1500, 130


def update(step, at, x, table, index, value="%c = arith.addf %b, %w : {to}"):
    """table[index(at[i]), :] = value(table[..], x[i, :]) for each i; `index` are lines from %n, an i64, to %j."""
    n, columns = at.shape[0], x.shape[1]
    whole, row, new = table.type, tensor([columns], table.dtype), tensor([columns], x.dtype)
    widen = "%w = arith.extf %a : bf16 to f32" if (x.dtype, table.dtype) == ("bf16", "f32") else ""
    lines = [value.format(to=table.dtype) if widen else value.format(to=table.dtype).replace("%w", "%a")]
    step.keep(loop(step, n, [(table.name, whole)], [
        f"%n = tensor.extract {at.name}[%i] : {at.type}", *index,
        f"%x = tensor.extract_slice {x.name}[%i, 0] [1, {columns}] [1, 1] : {x.type} to {new}",
        f"%o = tensor.extract_slice %t0[%j, 0] [1, {columns}] [1, 1] : {whole} to {row}",
        "%s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], "
        f"iterator_types = [\"parallel\"]}} ins(%x : {new}) outs(%o : {row}) {{",
        f"^bb0(%a: {x.dtype}, %b: {table.dtype}):", *([widen] if widen else []), *lines,
        f"linalg.yield %c : {table.dtype}", f"}} -> {row}",
        f"%u = tensor.insert_slice %s into %t0[%j, 0] [1, {columns}] [1, 1] : {row} into {whole}"], ["%u"],
        table.shape, table.dtype))


PLAIN = ("%j = arith.index_cast %n : i64 to index",)


def gradient(step, rows, high, dtype="f32", of="f32", low=0, index=PLAIN, **values):
    at = step.input([ROWS], "i64", low, high)
    at_table = step.fill((rows, COLUMNS), dtype, step.constant("0.0", dtype))
    update(step, at, step.input([ROWS, COLUMNS], of), Value(at_table, (rows, COLUMNS), dtype), index, **values)


@case
def rows_of_one_id(step):
    gradient(step, 5, 1)


@case
def rows_of_few_ids(step):
    gradient(step, 3, 3)


@case
def rows_of_many_ids(step):
    gradient(step, 4000, 4000)


@case
def rows_of_a_bf16_gradient(step):
    gradient(step, 40, 40, of="bf16")


@case
def rows_of_ids_beyond_the_table(step):
    """What is not in it is added to its last row, as padding may be."""
    gradient(step, 30, 60, low=-20, index=(
        "%k = arith.index_cast %n : i64 to index", "%last = arith.constant 29 : index", "%j = arith.minui %k, %last : index"))


@case
def rows_that_are_replaced_in_part(step):
    """Each update depends on the one before in a way that no other order has."""
    gradient(step, 7, 7, value="%h = arith.constant 0.5 : {to}\n%d = arith.mulf %b, %h : {to}\n%c = arith.addf %d, %w : {to}")


@case
def rows_of_ids_that_all_differ(step):
    """Each iteration has a row of its own, in an order that no sorting keeps."""
    gradient(step, ROWS, 1, index=(
        "%k = arith.index_cast %n : i64 to index", "%seven = arith.constant 7 : index", "%m = arith.muli %i, %seven : index",
        f"%rows = arith.constant {ROWS} : index", "%q = arith.addi %m, %k : index", "%j = arith.remui %q, %rows : index"))


@case
def rows_of_a_bf16_table(step):
    gradient(step, 40, 40, dtype="bf16", of="bf16")


@case
def rows_beside_a_masked_one(step):
    """As an embedding's gradient with padding_idx, whose row stays."""
    gradient(step, 6, 6, value="%pad = arith.constant 2 : i64\n%p = arith.cmpi eq, %n, %pad : i64\n"
                               "%d = arith.addf %b, %w : {to}\n%c = arith.select %p, %b, %d : {to}")


@case
def rows_by_elements(step):
    """As a lowering writes a scatter: two sequential loops over rows and columns, element by element."""
    at, x = step.input([ROWS], "i64", 0, 40), step.input([ROWS, COLUMNS])
    table = step.fill((40, COLUMNS), "f32", step.constant("0.0", "f32"))
    whole = tensor([40, COLUMNS], "f32")
    step.keep(loop(step, ROWS, [(table, whole)], [
        f"%zero = arith.constant 0 : index\n%one = arith.constant 1 : index\n%end = arith.constant {COLUMNS} : index",
        f"%all = scf.for %column = %zero to %end step %one iter_args(%t = %t0) -> ({whole}) {{",
        f"%n = tensor.extract {at.name}[%i] : {at.type}", "%j = arith.index_cast %n : i64 to index",
        f"%a = tensor.extract {x.name}[%i, %column] : {x.type}", f"%b = tensor.extract %t[%j, %column] : {whole}",
        "%c = arith.addf %b, %a : f32", f"%u = tensor.insert %c into %t[%j, %column] : {whole}", f"scf.yield %u : {whole}", "}"],
        ["%all"], (40, COLUMNS), "f32"))
