"""Reads the HTML report as a person would, in headless Chromium: report_browser.py SAMPLE_REPORTS FOLDER.

SAMPLE_REPORTS writes the pages; FOLDER keeps them and screenshots of both colour schemes, to be looked at. Exit code 77
means that there is no Chromium here and nothing was tested."""
import json
import math
import pathlib
import subprocess
import sys

import webdriver

TABLE = "#part-3 table"  # of the layers: 400 rows


class Test:
    def __init__(self, browser, folder):
        self.browser, self.folder, self.failed, self.passed = browser, folder, [], 0

    def check(self, what, condition, detail=""):
        if condition:
            self.passed += 1
        else:
            self.failed.append(what)
            print(f"FAILED {what}: {detail}")

    def equal(self, what, got, wanted):
        self.check(what, got == wanted, f"{got!r}, wanted {wanted!r}")

    def open(self, name, scheme="light"):
        self.browser.prefer(scheme)
        self.browser.open(self.folder / f"{name}.html")

    def column(self, index):
        return self.browser.script(f"return [...document.querySelector('{TABLE}').tBodies[0].rows].map(r => r.cells[{index}].textContent)")

    # Nothing in the console, nothing asked of a network.
    def quiet(self, name):
        self.equal(f"{name}: console", [entry["message"] for entry in self.browser.log("browser")], [])
        urls = []
        for entry in self.browser.log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                urls.append(event["params"]["request"]["url"])
        outside = [u for u in urls if not u.startswith(("file:", "data:"))]
        self.check(f"{name}: requests are seen", any(u.startswith("file:") for u in urls), urls)
        self.equal(f"{name}: requests", outside, [])

    def schemes(self):
        """Both schemes, by the system's preference and by the button."""
        background = "return getComputedStyle(document.body).backgroundColor"
        seen = {}
        for scheme in ("light", "dark"):
            for name in ("rich", "passed", "hostile", "large", "empty"):
                self.open(name, scheme)
                self.browser.screenshot(self.folder / f"{name}-{scheme}.png")
                self.quiet(f"{name} in {scheme}")
            seen[scheme] = self.browser.script(background)
        self.check("schemes differ", seen["light"] != seen["dark"], seen)
        self.open("rich", "light")
        for wanted in ("light", "dark", "auto"):
            self.browser.click(".theme")
            self.equal(f"button says {wanted}", self.browser.script("return document.querySelector('.theme').textContent"), f"Colours: {wanted}")
            self.equal(f"colours of {wanted}", self.browser.script(background), seen["dark" if wanted == "dark" else "light"])

    def contrast(self):
        """Text and series against what they stand on: 4.5 for text, 3 for drawings (WCAG)."""
        for scheme in ("light", "dark"):
            self.open("rich", scheme)
            colours = self.browser.script("""
              const probe = document.createElement('p'); document.body.append(probe);
              const rgb = (v) => { probe.style.color = `var(--${v})`; return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number); };
              return Object.fromEntries(['page', 'panel', 'text', 'soft', 'link', 'good', 'good-back', 'bad', 'bad-back', 'limit',
                's0', 's1', 's2', 's3', 's4', 's5', 's6', 's7'].map(v => [v, rgb(v)]));""")

            def light(v):
                parts = [c / 255 for c in colours[v]]
                parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

            def ratio(a, b):
                high, low = max(light(a), light(b)), min(light(a), light(b))
                return (high + 0.05) / (low + 0.05)

            texts = [(t, b) for t in ("text", "soft", "link") for b in ("page", "panel")]
            texts += [("good", "good-back"), ("bad", "bad-back"), ("text", "good-back"), ("text", "bad-back"), ("limit", "panel")]
            for a, b in texts:
                self.check(f"{scheme}: {a} on {b}", ratio(a, b) >= 4.5, f"{ratio(a, b):.2f}")
            for i in range(8):
                self.check(f"{scheme}: series {i}", ratio(f"s{i}", "panel") >= 3, f"{ratio(f's{i}', 'panel'):.2f}")

    def sorting(self):
        self.open("rich")
        given = self.column(3)
        head = f"{TABLE} th:nth-child(4)"
        press = f"{head} button"
        state = f"return document.querySelector('{head}').getAttribute('aria-sort')"
        number = lambda text: math.inf if text == "inf" else float(text)
        self.equal("not sorted at first", self.browser.script(state), None)
        self.browser.click(press)
        self.equal("rising", [number(v) for v in self.column(3)], sorted(number(v) for v in given))
        self.equal("says rising", self.browser.script(state), "ascending")
        self.browser.keys(press, "\ue007")  # Enter
        self.equal("falling, by keyboard", [number(v) for v in self.column(3)], sorted((number(v) for v in given), reverse=True))
        self.equal("says falling", self.browser.script(state), "descending")
        self.browser.click(press)
        self.equal("as given", self.column(3), given)
        self.browser.click(f"{TABLE} th:nth-child(1) button")
        names = self.browser.script(f"return [...document.querySelector('{TABLE}').tBodies[0].rows].slice(0, 12).map(r => r.cells[0].title)")
        self.check("names by number", names[1].endswith("output_1") and names[2].endswith("output_2"), names)

    def filtering(self):
        self.open("rich")
        self.browser.keys("#part-3 .filter input", "conv layers.4")
        left = self.browser.script(f"return [...document.querySelector('{TABLE}').tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[0].title + ' ' + r.cells[1].textContent)")
        self.check("filter leaves rows that hold all words", left and all("layers.4" in row and "Conv" in row for row in left), left)
        told = self.browser.script("return document.querySelector('#part-3 .filter span').textContent")
        self.equal("filter tells how many", told, f"{len(left)} of 400 rows")
        self.equal("small tables have none", self.browser.script("return document.querySelectorAll('.filter').length"), 1)
        top = self.browser.script(f"""const box = document.querySelector('#part-3 .many'); box.scrollTop = 1000;
            return document.querySelector('{TABLE} th').getBoundingClientRect().top - box.getBoundingClientRect().top""")
        self.check("heads stay in sight", -1 <= top <= 3, top)

    def plots(self):
        self.open("rich")
        plot = "#part-3 .plot"
        texts = self.browser.script(f"return [...document.querySelectorAll('{plot} text')].map(t => t.textContent)")
        for label in ("layer, in graph order", "SQNR (dB)", "gate: sqnr>=30", "∞", "0", "100", "30"):
            self.check(f"plot shows {label}", label in texts, texts)
        legend = self.browser.script("return [...document.querySelectorAll('#part-3 .legend li')].map(e => e.textContent.trim())")
        self.equal("legend", legend, ["from the start", "this layer alone"])
        told = self.browser.script(f"return [...document.querySelectorAll('{plot} .tips circle')].map(c => c.getAttribute('aria-label'))")
        self.equal("points told", len(told), 320)
        self.check("a point's label", told[0].startswith("from the start\n/model/encoder/layers.0/") and told[0].endswith(": 46"), told[0])
        self.browser.point_at(f"{plot} .tips circle:nth-child(31)", 1, 1)
        tip = self.browser.script("const t = document.querySelector('.tip'); return t.hidden ? null : t.textContent")
        self.check("tooltip of the nearest point", tip and tip.startswith("from the start\n/model/encoder/layers.3/"), tip)
        self.browser.keys(plot, "\ue014")  # arrow to the right
        after = self.browser.script("return document.querySelector('.tip').textContent")
        self.check("arrows go from point to point", after and after != tip, after)
        self.browser.point_at("#part-4 .histogram", 20, 0)
        tip = self.browser.script("return document.querySelector('.tip').textContent")
        self.check("bins are told", " to " in tip and "reference: " in tip and "candidate: " in tip, tip)
        overlaps = self.browser.script("""
            const out = [];
            for (const svg of document.querySelectorAll('svg.plot, svg.histogram')) {
              const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
              texts.forEach(([a, x], i) => texts.slice(i + 1).forEach(([b, y]) => {
                if (x.width && y.width && x.left < y.right - 1 && y.left < x.right - 1 && x.top < y.bottom - 4 && y.top < x.bottom - 4) out.push([a, b]);
              }));
              const box = svg.getBoundingClientRect();
              for (const [a, x] of texts) if (x.left < box.left - 1 || x.right > box.right + 1) out.push([a, 'cut off']);
            }
            return out;""")
        self.equal("texts of drawings lie apart", overlaps, [])

    def hostile(self):
        self.open("hostile")
        self.equal("no element from a name", self.browser.script("return document.querySelectorAll('img, x, main script').length"), 0)
        self.equal("one script", self.browser.script("return document.scripts.length"), 1)
        title = self.browser.script("return document.querySelector('h1').textContent")
        self.check("the name is shown as text", title.startswith("</script><img src=x onerror=\"alert('1')\">|`*[x](y)`\\ &amp; "), title)

    def narrow_and_paper(self):
        for name in ("rich", "hostile"):
            self.open(name)
            self.browser.devtools("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
            wide = self.browser.script("return document.documentElement.scrollWidth")
            self.check(f"{name} fits a telephone", wide <= 390, wide)
            self.browser.screenshot(self.folder / f"{name}-narrow.png")
            self.browser.devtools("Emulation.clearDeviceMetricsOverride")
        self.open("rich", "dark")
        self.browser.devtools("Emulation.setEmulatedMedia", media="print")
        hidden = self.browser.script("return getComputedStyle(document.querySelector('.filter')).display")
        self.equal("paper has no controls", hidden, "none")
        self.browser.devtools("Emulation.setEmulatedMedia", media="")

    def without_script(self):
        self.browser.devtools("Emulation.setScriptExecutionDisabled", value=True)
        self.open("rich")
        self.browser.screenshot(self.folder / "rich-no-script.png")
        self.browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
        page = (self.folder / "rich.html").read_text()
        self.check("points are told without a script", "<title>/model/encoder/" in page)


def main():
    if webdriver.programs() is None:
        print("NOT RUN: Chromium and ChromeDriver are absent (Debian packages chromium and chromium-driver)")
        sys.exit(77)
    writer, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([writer, folder], check=True)
    with webdriver.browser() as browser:
        test = Test(browser, folder)
        for part in (test.schemes, test.contrast, test.sorting, test.filtering, test.plots, test.hostile,
                     test.narrow_and_paper, test.without_script):
            part()
    print(f"{test.passed} passed, {len(test.failed)} failed; screenshots are in {folder}")
    sys.exit(1 if test.failed else 0)


main()
