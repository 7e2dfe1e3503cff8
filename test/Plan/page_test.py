# Part of fsdp-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pages of fsdp-plan as a user sees them: FSDP_PLAN is the tool, FSDP_FIXTURES the models."""
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import browser


def setUpModule():
    if not browser.CHROMIUM:
        raise unittest.SkipTest("SKIPPED: there is no chromium; tools/check installs it")
    global folder, page
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    page = browser.Browser()
    unittest.addModuleCleanup(page.close)


@functools.cache
def plan(*options):
    """The JSON of a plan and its page: made once for all tests, which change none of them."""
    html = pathlib.Path(folder.name) / f"page{plan.cache_info().currsize}.html"
    return json.loads(run_plan(*options, "--html", str(html), "--json")), html


@functools.cache
def plan_text(*options):
    # As with a page.
    return run_plan(*options, "--what-if")


def run_plan(*words):
    command = [os.environ["FSDP_PLAN"], os.path.join(os.environ["FSDP_FIXTURES"], "gpt2", "model.mlir"),
               "--cluster", "h100-sxm", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# Rows of what would help, without the titles between them.
HELPS = "#helps tbody tr:not(.group)"
CLUSTER = pathlib.Path(__file__).parents[2] / "lib" / "Cost" / "clusters" / "h100-sxm.json"


def milliseconds(text):
    number, unit = re.match(r"([\d.]+) (s|ms|µs)", text).groups()
    return float(number) * {"s": 1e3, "ms": 1, "µs": 1e-3}[unit]


def gigabytes(text):
    number, unit = re.match(r"([\d.]+) (GB|KB)/s", text).groups()
    return float(number) * {"GB": 1, "KB": 1e-6}[unit]


class PageTest(unittest.TestCase):
    def open(self, *options):
        self.options, (self.data, html) = options, plan(*options)
        page.open(html)
        self.assertEqual(page.requests, [html.absolute().as_uri()], "the page needs a network")

    @property
    def text(self):
        return plan_text(*self.options)

    def tearDown(self):
        self.assertEqual(page.problems, [])

    def widths(self, selector):
        """Of the coloured parts of each track: left and width as parts of the track."""
        return page.run(f"""[...document.querySelectorAll("{selector}")].map(track => {{
            const box = track.getBoundingClientRect();
            return [...track.querySelectorAll("i")].map(part => {{
              const inner = part.getBoundingClientRect();
              return [(inner.left - box.left) / box.width, inner.width / box.width]; }}); }})""")

    def check_bars(self, got, steps, longest):
        self.assertEqual(len(got), len(steps))
        for parts, (compute, exposed) in zip(got, steps):
            for (left, width), (begin, length) in zip(parts, ((0, compute), (compute, exposed)), strict=True):
                self.assertAlmostEqual(left, begin / longest, delta=0.004)
                self.assertAlmostEqual(width, length / longest, delta=0.004)


    def helps(self):
        """What would help, as the page lists it: options first, each kind as in the report."""
        return sorted(self.data["what_ifs"], key=lambda w: not w["is_option"])

    def device_peak(self):
        """Flops a second of the fixture's products, which are in f32."""
        cluster = json.loads(CLUSTER.read_text())
        return cluster["device"]["matmul"]["f32"]["peak_tflops"] * 1e12

    def check_headline(self, text, parts):
        """It names @parts, in milliseconds, the largest first, each with its share."""
        order = sorted(parts, key=parts.get, reverse=True)
        self.assertTrue(text.lower().startswith(order[0] + " is the largest part of the step"), text)
        places = [text.lower().index(name) for name in order]
        self.assertEqual(places, sorted(places), text)
        shares = [float(share) / 100 for share in re.findall(r"\(([\d.]+) %\)", text)]
        for name, share in zip(order, shares, strict=True):
            self.assertAlmostEqual(share, parts[name] / self.data["step_ms"], delta=6e-4, msg=name)


    def check_narrow(self, parts):
        """Of a phone's screen: what is wider than it moves in a part of its own, and can be reached."""
        page.resize(390, 800)
        self.addCleanup(page.resize, 1280, 1000)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
        for part in parts:
            box = f"""document.querySelector("{part}")"""
            self.assertLessEqual(page.run(f"{box}.getBoundingClientRect().right"), 390, part)
            right = page.run(f"""(box => {{ box.scrollLeft = 1e6;
                return Math.max(...[...box.querySelectorAll("th, td")].map(
                    cell => cell.getBoundingClientRect().right)); }})({box})""")
            self.assertLessEqual(right, 391, part)


class TightPage(PageTest):
    """A budget below the device's that the step fits into at a price."""

    def setUp(self):
        self.open("--mesh", "shard=16", "--memory-budget", "2049.0MiB")
        self.assertTrue(self.data["fits"])

    def test_the_price_of_the_budget_is_named(self):
        roomy, = (w for w in self.data["what_ifs"] if w["has_all_memory"])
        # The device has enough: this can be had now.
        self.assertTrue(roomy["is_option"])
        self.assertIn(roomy["title"], self.text)
        self.assertLess(roomy["step_ms"], self.data["step_ms"])
        story = page.run("""[...document.querySelectorAll("#story li")].map(item => item.textContent)""")
        best = self.data["orders"][-1]
        self.check_headline(story[0], {"compute": best["compute_ms"],
                                       "communication that is not hidden": best["exposed_ms"]})
        price, share = re.match(r"The memory budget costs (\S+ \S+) \(([\d.]+) %\) of that", story[1]).groups()
        lost = self.data["step_ms"] - roomy["step_ms"]
        self.assertAlmostEqual(milliseconds(price), lost, delta=1e-3 * lost)
        self.assertAlmostEqual(float(share) / 100, lost / self.data["step_ms"], delta=6e-4)

    def test_settings_are_shown(self):
        self.assertEqual(self.data["options"], "--memory-budget 2049.0MiB")
        self.assertIn(self.data["options"], self.text.splitlines()[0])
        self.assertIn(self.data["options"], page.run("document.title"))
        self.assertTrue(page.run("""document.getElementById("where").textContent""").endswith(self.data["options"]))

    def test_orders_over_the_budget_are_marked(self):
        over = [o["over_budget"] for o in self.data["orders"]]
        self.assertEqual(over, [o["peak"]["bytes"] > self.data["budget_bytes"] for o in self.data["orders"]])
        self.assertTrue(any(over))
        self.assertFalse(over[-1])
        marks = page.run("""[...document.querySelectorAll("#bars .bar")].map(
            bar => bar.firstChild.textContent.endsWith("(over the budget)"))""")
        self.assertEqual(marks, over)
        self.assertEqual(self.text.count("(over the budget)"), sum(over))
        story = page.run("""document.getElementById("story").textContent""")
        self.assertEqual(story.count("(over the budget)"), sum(over[:-1]))


class SmallPage(PageTest):
    """A budget that no order fits into."""

    def test_what_is_needed_is_a_budget_that_is_enough(self):
        self.open("--mesh", "shard=16", "--memory-budget", "1MiB")
        self.assertFalse(self.data["fits"])
        gib = lambda text: float(re.search(r"([\d.]+)GiB", text)[1]) * 2 ** 30
        check = lambda text, data: self.assertTrue(
            0 <= gib(text) - (data["least_budget_bytes"] + self.data["reserved_bytes"]) <= 0.011 * 2 ** 30, text)
        story = page.run("""document.querySelector("#story li").textContent""")
        self.assertIn("the step needs --memory-budget ", story)
        check(story, self.data)
        # Something needs less.
        frugal = re.search(r"With (.*) it needs ([\d.]+)GiB", story)
        needs = {w["title"]: w["least_budget_bytes"] for w in self.data["what_ifs"]
                 if w["is_option"] and not w["has_all_memory"]}
        self.assertEqual(needs[frugal[1]], min(needs.values()))
        self.assertLess(needs[frugal[1]], self.data["least_budget_bytes"])
        rows = page.run(f"""[...document.querySelectorAll("{HELPS}")].slice(1).map(
            row => row.children[4].textContent)""")
        short = [(row, w) for row, w in zip(rows, self.helps(), strict=True) if not w.get("fits", True)]
        self.assertTrue(short)
        for row, w in short:
            check(row, w)
            self.assertRegex(self.text, rf"(?m){row}  {re.escape(w['title'])}$")

    def test_the_plan_is_the_one_of_the_least_budget(self):
        self.open("--mesh", "shard=2", "--memory-budget", "2148500000")
        small = self.data
        self.assertFalse(small["fits"])
        printed = re.search(r"; the plan is the one for --memory-budget (\S+)", self.text)[1]
        story = page.run("""document.querySelector("#story").textContent""")
        self.assertIn(f"needs --memory-budget {printed} or more", story)
        self.assertIn("All that is said of the plan is true of it with that budget.", story)
        self.open("--mesh", "shard=2", "--memory-budget", printed)
        self.assertTrue(self.data["fits"])
        self.assertEqual(small["planned_budget_bytes"], self.data["budget_bytes"])
        for key in ("step_ms", "bound_ms", "limit", "decisions", "kernels"):
            self.assertEqual(small[key], self.data[key], key)
        told = [dict(data["orders"][-1], over_budget=None) for data in (small, self.data)]
        self.assertEqual(*told)

    def test_no_time_is_shown_of_what_does_not_fit(self):
        self.open("--mesh", "shard=16", "--memory-budget", "1MiB")
        least = self.data["least_budget_bytes"] + self.data["reserved_bytes"]
        self.open("--mesh", "shard=16", "--memory-budget", str(least))
        small = [w for w in self.data["what_ifs"] if not w["fits"]]
        self.assertTrue(small)
        rows = {row[0]: row for row in page.run(f"""[...document.querySelectorAll("{HELPS}")].map(
            row => [...row.children].map(cell => cell.textContent))""")}
        for w in small:
            self.assertEqual(rows[w["title"]][1:4], ["–", "", ""])
            self.assertRegex(rows[w["title"]][4], r"^[\d.]+GiB$")
            self.assertEqual(rows[w["title"]][5], "does not fit")
            self.assertRegex(self.text, f"(?m)^  does not fit +{re.escape(w['title'])} ")


class PlanPage(PageTest):
    def setUp(self):
        self.open("--mesh", "shard=16")

    def test_what_another_order_could_win_is_what_the_gap_says(self):
        gap = f"{100 * self.data['orders'][-1]['gap']:.1f} %"
        story = page.run("""document.querySelector("#story").textContent""")
        self.assertIn("another order cannot help" if gap == "0.0 %" else f"another order can win {gap} at most", story)

    def test_numbers_are_those_of_the_report(self):
        cards = dict(page.run("""[...document.querySelectorAll(".card")].map(
            card => [card.children[0].textContent, card.children[1].textContent])"""))
        best = self.data["orders"][-1]
        for card, value in (("step", self.data["step_ms"]), ("no order is below", self.data["bound_ms"]),
                            ("compute", best["compute_ms"]), ("exposed communication", best["exposed_ms"])):
            # Three digits, at most three of them behind the point.
            self.assertAlmostEqual(milliseconds(cards[card]), value, delta=max(value * 1e-3, 6e-4), msg=card)
            self.assertIn(f"{value:.3f} ms", self.text)
        self.assertAlmostEqual(float(cards["tokens a second"].replace(",", "")), self.data["items_per_s"], delta=1)
        self.assertEqual(page.run("document.title"), "fsdp-plan: gpt2, shard=16")
        rows = page.run("""[...document.querySelectorAll("#table tbody tr")].map(
            row => [...row.children].map(cell => cell.textContent))""")
        collectives = [c for c in best["collectives"] if c["exposed_ms"] > 0][:10]
        self.assertEqual(len(rows), len(collectives))
        for (name, exposed, _, reached, link, cause), expected in zip(rows, collectives):
            self.assertAlmostEqual(milliseconds(exposed), expected["exposed_ms"], delta=6e-4 * expected["exposed_ms"])
            self.assertAlmostEqual(gigabytes(reached), expected["gb_per_s"], delta=6e-3 * expected["gb_per_s"])
            self.assertAlmostEqual(gigabytes(link), expected["link_gb_per_s"], delta=6e-3 * expected["link_gb_per_s"])
            self.assertEqual("mostly latency" in reached, expected["latency_ms"] > expected["alone_ms"] / 2)
            self.assertIn(expected["name"], name)
            self.assertEqual(cause, expected["cause"])

    def test_words_say_what_the_plan_says(self):
        story = page.run("""[...document.querySelectorAll("#story li")].map(item => item.textContent)""")
        best = self.data["orders"][-1]
        self.check_headline(story[0], {"compute": best["compute_ms"],
                                       "communication that is not hidden": best["exposed_ms"]})
        self.assertIn(best["collectives"][0]["cause"], " ".join(story))
        # By kind and in all.
        kinds = {}
        for c in best["collectives"]:
            if c["exposed_ms"]:
                phase = {"all_gather": " (backward)" if c["backward"] else " (forward)"}.get(c["queue"], "")
                name = c["name"].removesuffix(phase).rsplit(" ", 1)[-1] + phase
                time, number = kinds.get(name, (0, 0))
                kinds[name] = (time + c["exposed_ms"], number + 1)
        listed = re.search(r"By kind: (.*?)\. Most of all", " ".join(story))[1].split(", ")
        self.assertEqual(len(listed), min(4, len(kinds)))
        for text in listed:
            name, time, number = re.fullmatch(r"(.*) ([\d.]+ (?:ms|µs)) \((\d+) of them\)", text).groups()
            self.assertAlmostEqual(milliseconds(time), kinds[name][0], delta=1e-3 * kinds[name][0])
            self.assertEqual(int(number), kinds[name][1])
        helps = [w for w in self.data["what_ifs"] if w["is_option"] and w["fits"]]
        self.assertIn(f"The option that helps most is {helps[0]['title']}", " ".join(story))
        whole = page.run("""[...document.querySelectorAll("#whole i")].map(part => part.getBoundingClientRect().width
            / document.getElementById("whole").getBoundingClientRect().width)""")
        self.assertAlmostEqual(sum(whole), 1, delta=0.004)

    def test_what_planning_gains_is_named(self):
        story = page.run("""document.querySelector("#story").textContent""")
        orders = {o["order"]: o for o in self.data["orders"]}
        best = orders["planned"]
        for order, title in ((orders["fsdp"], orders["fsdp"]["title"]),
                             (orders["fsdp_kept"], "FSDP with reshard_after_forward=False")):
            gain, side, bytes, unit, other = re.search(
                rf"([\d.]+) % (less|more) than {re.escape(title)} \([^)]*\), in "
                r"(?:as much|([\d.]+) (\S+) (less|more)) memory", story).groups(default="")
            self.assertAlmostEqual(float(gain) / 100 * (-1 if side == "more" else 1),
                                   1 - best["step_ms"] / order["step_ms"], delta=6e-4)
            more = best["peak"]["bytes"] - order["peak"]["bytes"]
            scale = {"": 0, "bytes": 1, "KiB": 2 ** 10, "MiB": 2 ** 20}[unit]
            self.assertAlmostEqual(float(bytes or 0) * (1 if other == "more" else -1) * scale, more, delta=0.051 * scale)

    def test_bars_are_as_long_as_they_say(self):
        orders = [(o["compute_ms"], o["exposed_ms"]) for o in self.data["orders"]]
        self.check_bars(self.widths("#bars .track"), orders, max(map(sum, orders)))
        changes = [orders[-1]] + [(w["compute_ms"], w["exposed_ms"]) for w in self.helps() if w["fits"]]
        self.assertGreater(len(changes), 5)
        self.check_bars(self.widths("#helps .track"), changes, max(map(sum, changes)))
        titles = page.run(f"""[...document.querySelectorAll("{HELPS}")].map(r => r.children[0].textContent)""")
        self.assertEqual(titles, ["as it is"] + [w["title"] for w in self.helps()])

    def test_what_can_be_had_stands_before_what_cannot(self):
        groups = page.run("""[...document.querySelectorAll("#helps tbody tr")].map(
            row => row.className == "group" ? row.textContent : "")""")
        options = sum(w["is_option"] for w in self.data["what_ifs"])
        places = [i for i, group in enumerate(groups) if group]
        self.assertEqual(places, [1, options + 2])
        self.assertIn("options", groups[places[0]])
        self.assertIn("other machines", groups[places[1]])

    def test_rates_stand_beside_the_peak(self):
        card = page.run("""document.querySelector(".card").lastChild.textContent""")
        tflops, part = map(float, re.fullmatch(r"([\d.]+) TFLOP/s per rank\n([\d.]+) % of the peak", card).groups())
        self.assertAlmostEqual(tflops, self.data["tflops_per_rank"], delta=0.06)
        self.assertAlmostEqual(part / 100, self.data["mfu"], delta=6e-4)
        self.assertAlmostEqual(self.data["mfu"], self.data["tflops_per_rank"] * 1e12 / self.device_peak(), delta=1e-9)
        self.assertIn(f"{100 * self.data['mfu']:.1f} % of the peak", self.text)
        rows = page.run("""[...document.querySelectorAll("#kernels tbody tr")].map(
            row => [row.children[3].textContent, row.children[6].textContent])""")
        products = [reached for reached, what in rows if what.startswith("product")]
        self.assertTrue(products)
        # Products of so small a model are started for longer than they run.
        for reached in products:
            self.assertRegex(reached, r"^[\d.]+ TFLOP/smostly starting$")
        starting = self.data["compute_by_kind_ms"]["starting kernels"]
        self.assertGreater(starting, 0.9 * self.data["orders"][-1]["compute_ms"])
        self.assertAlmostEqual(sum(self.data["compute_by_kind_ms"].values()),
                               sum(k["ms"] for k in self.data["kernels"]), delta=1e-6)

    def test_kernels_lead_back_to_the_model(self):
        self.open()
        kernels = {kernel["name"]: kernel for kernel in self.data["kernels"]}
        rows = page.run("[...document.querySelectorAll('#kernels tbody tr')].map(r => "
                        "[...r.cells].map(c => c.textContent))")
        of = {row[5]: row[-1] for row in rows}
        for row in rows:
            near = kernels[row[5]]
            self.assertEqual(row[4], f"{100 * near['roof_ms'] / near['ms']:.1f} %{near['limit']}")
        product = next(k for k in self.data["kernels"] if "product" in k["kind"] and len(k["modules"]) == 1)
        # One row for all blocks.
        self.assertRegex(product["modules"][0], r"^transformer\.h\.\*\.(attn|mlp)\.c_[a-z]+$")
        self.assertIn(product["name"], of)
        for name, text in of.items():
            modules = kernels[name]["modules"]
            more = f" and {len(modules) - 3} more" if len(modules) > 3 else ""
            self.assertEqual(text, ", ".join(modules[:3]) + more)
            if modules and name == self.data["kernels"][0]["name"]:
                self.assertIn(f"{kernels[name]['kind']}; {text}\n", self.text)

    def test_room_for_a_larger_batch_is_named(self):
        for budget in ([], ["--memory-budget", "2.02GiB"]):
            self.open("--mesh", "shard=8", *budget)
            story = page.run("document.querySelector('#story').textContent")
            # How many thousands is not known so well.
            self.assertEqual(self.data["room_for_items"] > 100, not budget)
            room = f"about {self.data['room_for_items']:.1f} times" if budget else "more than 100 times"
            self.assertIn(f"are free: {room} as many {self.data['item']} a rank would fit", story)
            self.assertIn(f"for {room} the {self.data['item']} a rank", self.text)
        # None where memory is full: a plan for what another one takes may take less.
        full = None
        while full != self.data["planned_arena_bytes"] + self.data["reserved_bytes"]:
            full = self.data["planned_arena_bytes"] + self.data["reserved_bytes"]
            self.open("--mesh", "shard=8", "--memory-budget", str(full))
        self.assertNotIn("times as many", page.run("document.querySelector('#story').textContent"))
        self.assertNotIn("free: ", self.text)

    def test_its_words_are_explained(self):
        for options in (["--mesh", "shard=64"], ["--mesh", "shard=2,replicate=2", "--memory-budget", "2149094359"]):
            self.open(*options)
            known = page.run("[...document.querySelectorAll('#remedies dt')].map(d => d.textContent)")
            causes = {c["cause"] for order in self.data["orders"] for c in order["collectives"] if c["exposed_ms"]}
            self.assertTrue(causes)
            for cause in causes:
                self.assertTrue([k for k in known if cause.startswith(k)], f"'{cause}' is not explained")
            self.assertIn("unit", page.run("document.querySelector('#words').textContent"))

    def test_parts_of_the_step_are_named_whole(self):
        inside = page.run("""[...document.querySelectorAll("#whole i")].map(
            part => [part.textContent, part.scrollWidth <= part.clientWidth, part.title.split(",")[0]])""")
        keys = page.run("""document.getElementById("wholeKeys").textContent""")
        for text, fits, title in inside:
            self.assertTrue(fits, text)
            self.assertIn(text, title)
            self.assertIn(title.replace(": ", " "), keys)

    def test_gaps_are_to_the_bound_of_each_order(self):
        bounds = page.run("""[...document.querySelectorAll("#bars .track")].map(track =>
            parseFloat(track.querySelector("u").style.left) / 100)""")
        words = page.run("""[...document.querySelectorAll("#bars .bar")].map(bar => bar.lastChild.textContent)""")
        longest = max(o["step_ms"] for o in self.data["orders"])
        texts = re.findall(r"ms   gap +([\d.]+) %", self.text)
        for order, bound, word, text in zip(self.data["orders"], bounds, words, texts, strict=True):
            self.assertAlmostEqual(order["gap"], order["step_ms"] / order["bound_ms"] - 1, delta=1e-9)
            self.assertAlmostEqual(bound, order["bound_ms"] / longest, delta=1e-4)
            self.assertAlmostEqual(float(text) / 100, order["gap"], delta=6e-4)
            self.assertAlmostEqual(float(re.search(r"gap ([\d.]+) %", word)[1]) / 100, order["gap"], delta=6e-4)
        # Other orders do other work, of which another bound holds.
        self.assertNotEqual(self.data["orders"][0]["bound_ms"], self.data["bound_ms"])
        self.assertEqual(self.data["orders"][-1]["bound_ms"], self.data["bound_ms"])

    def test_it_can_be_read_on_a_narrow_screen(self):
        self.check_narrow(("#helps", "#table", "#kernels"))
        for track in ("#bars", "#helps"):
            width = page.run(f"""document.querySelector("{track} .track").getBoundingClientRect().width""")
            self.assertGreater(width, 100, track)
        orders = [(o["compute_ms"], o["exposed_ms"]) for o in self.data["orders"]]
        self.check_bars(self.widths("#bars .track"), orders, max(map(sum, orders)))

    def canvas(self):
        return page.run("""(() => { const c = document.getElementById("canvas");
            c.scrollIntoView({block: "start"});
            const box = c.getBoundingClientRect(); return [box.left, box.top, c.clientWidth]; })()""")

    def view(self):
        return page.run("[view.from, view.to]")

    def row(self, queue):
        """The top of the last order's row of a queue, in the canvas."""
        return page.run(f"""rows.findLast(r => r.queue === plan.queues.indexOf("{queue}")).y""")

    def pixel(self, x, y):
        return page.run(f"[...pen.getImageData({x:.0f}, {y:.0f}, 1, 1).data].slice(0, 3)")

    def test_zoom_and_drag_move_what_is_seen(self):
        x, y, width = self.canvas()
        # The first op of the all_gather queue is green where it stands.
        gather = page.run("best.byQueue[1][0]")
        whole = self.view()
        self.assertEqual(whole[0], 0)
        scale = (width - 96) / (whole[1] - whole[0])
        row = self.row("all_gather")
        self.assertEqual(self.pixel(96 + (gather[1] + gather[2] / 2) * scale, row + 3), [0x2d, 0xa4, 0x4e])
        # The mouse says what it is on.
        page.mouse("mouseMoved", x + 96 + (gather[1] + gather[2] / 2) * scale, y + row + 5)
        tip = page.run("""(t => [t.style.display, t.textContent])(document.getElementById("tip"))""")
        self.assertEqual(tip[0], "block")
        self.assertIn("all_gather", tip[1])
        # The wheel alone moves the page, with Ctrl it zooms around the mouse.
        at = round(x + width / 2)
        before = page.run(f"getTime({{clientX: {at}}})")
        page.mouse("mouseWheel", at, y + row, deltaX=0, deltaY=-240)
        self.assertEqual(self.view(), whole)
        x, y, width = self.canvas()
        page.mouse("mouseWheel", at, y + row, deltaX=0, deltaY=-240, modifiers=2)
        zoomed = self.view()
        self.assertLess(zoomed[1] - zoomed[0], 0.9 * (whole[1] - whole[0]))
        self.assertAlmostEqual(page.run(f"getTime({{clientX: {at}}})"), before, delta=1e-6 * before)
        # A drag moves by what the mouse moved.
        page.mouse("mousePressed", at, y + row, button="left", clickCount=1)
        page.mouse("mouseMoved", at + 50, y + row, button="left", buttons=1)
        page.mouse("mouseReleased", at + 50, y + row, button="left", clickCount=1)
        dragged = self.view()
        moved = 50 * (zoomed[1] - zoomed[0]) / (width - 96)
        self.assertAlmostEqual(dragged[0], zoomed[0] - moved, delta=1e-6 * whole[1])
        page.mouse("mouseMoved", at + 90, y + row)
        self.assertEqual(self.view(), dragged, "it still moves when the button is up")
        page.click(at, y + row, count=2)
        self.assertEqual(self.view(), whole)

    def test_rows_jump_to_their_collective(self):
        e = page.run("best.exposures[1]")
        page.click(*page.find("""document.querySelectorAll("#table tbody tr")[1]"""))
        begin, end = self.view()
        self.assertLessEqual(begin, e["begin"])
        self.assertGreaterEqual(end, e["begin"] + e["duration"])
        self.assertLess(end - begin, 4 * max(e["duration"], self.data["step_ms"] * 1e3 / 200))
        # The buttons zoom, too.
        page.click(*page.find("""document.getElementById("farther")"""))
        wider = self.view()
        self.assertAlmostEqual(wider[1] - wider[0], 2 * (end - begin), delta=1e-6 * end)
        page.click(*page.find("""document.getElementById("all")"""))
        self.assertEqual(self.view()[0], 0)


class BucketPage(PageTest):
    """Small units on a link whose latency counts: the planner groups them."""

    def test_buckets_name_what_travels_in_them(self):
        self.open("--mesh", "shard=16", "--wrap", "size:4096")
        collectives = [c for c in self.data["orders"][-1]["collectives"] if c["exposed_ms"] > 0][:10]
        self.assertTrue(any(len(c["units"]) > 1 for c in collectives), collectives)
        rows = page.run("""[...document.querySelectorAll("#table tbody tr")].map(
            row => [row.children[0].textContent, row.title])""")
        parameters = {unit["name"]: unit["parameters"] for unit in self.data["units"]}
        for (name, title), c in zip(rows, collectives, strict=True):
            self.assertEqual(f"{c['parts']} together: " in name, c["parts"] > 1)
            if c["parts"] > 1:
                self.assertIn(", ".join(c["units"][:4]), name)
            for unit in c["units"]:
                self.assertIn(f"{unit}: {', '.join(parameters[unit])}", title)
            self.assertIn(f"({c['algorithm']}, {c['protocol']})", title)
        self.check_narrow(("#table",))


class SweepPage(PageTest):
    def setUp(self):
        self.open("--sweep", "mesh=shard=8;shard=16;shard=8,replicate=2 strategy=full_shard;hybrid_shard "
                  "budget=1MiB;3GiB")

    def test_points_are_drawn_and_listed(self):
        points = self.data["points"]
        self.assertEqual([p["status"] for p in points].count("fits"), 4)
        shapes = page.run("""[...document.querySelectorAll("svg")].map(svg =>
            ["circle.point", "path.off"].map(s => svg.querySelectorAll(s).length))""")
        self.assertEqual(shapes, [[4, 4], [4, 4]])
        fronts = page.run("""[...document.querySelectorAll(".front")].map(line => line.points.length)""")
        self.assertEqual(fronts, [sum(p.get(m, False) for p in points) for m in ("best_for_memory", "best_for_ranks")])
        # Faster is lower, in the first picture.
        places = page.run("""[...document.querySelector("svg").querySelectorAll("circle")].map(
            c => [+c.getAttribute("cy"), +c.getAttribute("cx")])""")
        fitting = [p for p in points if p["status"] == "fits"]
        for a, p in zip(places, fitting, strict=True):
            for b, q in zip(places, fitting):
                if p["step_ms"] < q["step_ms"]:
                    self.assertGreater(a[0], b[0])
                if p["peak_bytes"] < q["peak_bytes"]:
                    self.assertLess(a[1], b[1])
        rows = page.run("""[...document.querySelectorAll("tbody tr")].map(row => row.textContent)""")
        self.assertEqual(len(rows), len(points))
        for row, p in zip(rows, points):
            self.assertIn(p.get("reason", ""), row)
        # Of what does not fit, too, picture and table say the same.
        titles = page.run("""[...document.querySelectorAll("th")].map(h => h.textContent)""")
        peaks = page.run(f"""[...document.querySelectorAll("tbody tr")].map(
            row => row.children[{titles.index("peak")}].textContent)""")
        shown = page.run("""[...document.querySelector("svg").querySelectorAll(".point")].map(
            node => node.querySelector("title").textContent)""")
        drawn = page.run("""[...document.querySelector("svg").querySelectorAll(".point")].map(node =>
            { const box = node.getBBox(); return box.x + box.width / 2; })""")
        planned = [i for i, p in enumerate(points) if p["status"] != "refused"]
        for i, title in zip(planned, shown, strict=True):
            self.assertIn(", " + peaks[i] + ", ", title)
        unit = [(points[i]["peak_bytes"], x) for i, x in zip(planned, drawn)]
        (low, x0), (high, x1) = min(unit), max(unit)
        for peak, x in unit:
            self.assertAlmostEqual(x, x0 + (peak - low) / (high - low) * (x1 - x0), delta=0.5)
        story = page.run("""document.getElementById("story").textContent""")
        self.assertIn("12 points: 4 fit, 4 do not fit, 4 were refused", story)

    def test_names_of_axes_stand_beside_their_numbers(self):
        for names, numbers in page.run("""[...document.querySelectorAll("svg")].map(svg => {
                const texts = [...svg.querySelectorAll("text")].map(t => [t.getBoundingClientRect(), t]);
                return [texts.filter(t => t[1].hasAttribute("transform")).map(t => t[0].right),
                        texts.filter(t => t[1].getAttribute("text-anchor") == "end").map(t => t[0].left)]; })"""):
            self.assertEqual(len(names), 1)
            self.assertLess(names[0], min(numbers))

    def test_it_can_be_read_on_a_narrow_screen(self):
        self.check_narrow(("#table",))
        self.assertLessEqual(page.run("""document.querySelector("svg").getBoundingClientRect().right"""), 390)

    def test_columns_sort_and_points_choose_rows(self):
        titles = page.run("""[...document.querySelectorAll("th")].map(h => h.textContent)""")
        page.click(*page.find(f"""document.querySelectorAll("th")[{titles.index("step")}]"""))
        steps = page.run(f"""[...document.querySelectorAll("tbody tr")].map(
            row => row.children[{titles.index("step")}].textContent)""")
        known = [milliseconds(s) for s in steps if s != "–"]
        self.assertEqual(known, sorted(known))
        self.assertEqual(steps[len(known):], ["–"] * 4)
        # Points may cover each other: the one that the mouse hits is on top.
        x, y = page.find("""document.querySelector("svg circle")""")
        page.click(x, y)
        chosen = page.run("""[...document.querySelectorAll(".chosen")].map(n => n.tagName).sort()""")
        self.assertEqual(chosen, ["TR", "circle", "circle"])


if __name__ == "__main__":
    unittest.main()
