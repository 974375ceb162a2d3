// What the page does in the browser: where one is stands in the URL, and clicks reach the server.
window.heads = {
  kept: ["__theme", "present"],  // fields of the address that say how the page is shown
  // Hands clicks on whatever says data-do to a component's listeners, with its data.
  delegate(element, trigger) {
    element.addEventListener("click", (event) => {
      const found = event.target.closest("[data-do]");
      if (!found || event.ctrlKey || event.metaKey) return;
      const data = { ...found.dataset };
      if (data.do === "copy") return heads.copy(found, data.text);
      if (data.do === "scroll") return document.querySelector(data.to)?.scrollIntoView({ behavior: "smooth" });
      if (data.do === "theme") return heads.theme();
      if (data.do === "skip") { event.preventDefault(); return [...document.querySelectorAll("#sentence textarea, #file button, #place-learn button")].find((one) => one.offsetParent)?.focus(); }
      if (data.do === "unfold") return heads.unfold(data.fold);
      if (data.do === "go") { event.preventDefault(); return heads.visit(found.getAttribute("href"), found.dataset.place); }
      if (found.tagName === "A") event.preventDefault();
      trigger("click", { fields: data });
    });
    element.addEventListener("change", (event) => {
      const form = event.target.closest("form[data-form]");
      if (form) trigger("input", { fields: { ...Object.fromEntries(new FormData(form)), changed: event.target.name } });
    });
    heads.place();
    element.addEventListener("submit", (event) => {
      event.preventDefault();
      trigger("submit", { fields: Object.fromEntries(new FormData(event.target)) });
    });
  },

  // A component that is drawn anew keeps the focus where it was.
  refocus(element, watch) {
    let last = "";
    element.addEventListener("focusin", (event) => { last = event.target.id; });
    element.addEventListener("focusout", (event) => { if (event.relatedTarget) last = ""; });
    watch("value", () => { if (last && !element.contains(document.activeElement))
      element.querySelector("#" + CSS.escape(last))?.focus(); });
  },

  // The focus goes into a box that has just appeared.
  write(box) { setTimeout(() => document.querySelector(box)?.focus(), 100); },

  // Opens a fold of Gradio's and goes to its first field.
  unfold(id) {
    document.querySelector(`#${id} > button:not(.open)`)?.click();
    setTimeout(() => document.querySelector(`#${id} input`)?.focus(), 150);
  },

  // What has just opened comes into view, and the focus goes to its heading or its line.
  focus(id) {
    setTimeout(() => {
      const area = document.getElementById(id);
      area?.scrollIntoView({ block: "start", behavior: "smooth" });
      area?.querySelector("h2")?.focus({ preventScroll: true });
    }, 120);
  },

  // The router of the page: links of places, Back and Forward.
  route(trigger) {
    heads.arrive();
    heads.asked = location.search;
    if (heads.search() !== location.search) {  // a long text: ask it once the page has answered
      let checks = 20, answered = 0;
      heads.arriving = setInterval(() => {
        answered += Boolean(document.querySelector("#verdict strong"));
        if (checks-- && answered < 3) return;
        heads.arriving = clearInterval(heads.arriving);
        trigger("select", {});
      }, 250);
    }
    heads.go = () => trigger("select", {});
    window.addEventListener("popstate", () => {
      heads.place();
      trigger("select", {});
    });
    heads.place();
    // Gradio names the area for a file by other words than stand in it, and lets no text run
    // from right to left.
    new MutationObserver(() => {
      for (const box of document.querySelectorAll("textarea:not([dir=auto])")) box.dir = "auto";
      for (const area of document.querySelectorAll(":is(#file, #to-answer) button[aria-dropeffect][aria-label]"))
        area.removeAttribute("aria-label");
    }).observe(document.body, { childList: true, subtree: true });
    document.addEventListener("click", (event) => {  // before Gradio hears of it
      const tab = event.target.closest("#sections [data-tab-id][aria-selected=false]");
      if (tab) heads.section = tab.dataset.tabId;
    }, { capture: true });
    document.addEventListener("keydown", heads.keys);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) trigger("focus", {});  // a training may have begun in another tab
    });
    heads.tabs = new BroadcastChannel("head-to-head-runs");
    heads.tabs.onmessage = (event) => { heads.heard = event.data; trigger("input", {}); };
  },

  // Each tab writes down the whole list of one's runs: what is new in it, the others are told.
  tells(mine) {
    const now = JSON.stringify(mine);
    if (now !== heads.known) heads.tabs?.postMessage(mine);
    heads.known = now;
  },

  // The list with what another tab has told; nothing is left out, since no list alone is whole.
  hears(mine) {
    const found = [...new Set([heads.heard, mine].flatMap((list) => Array.isArray(list) ? list : []))];
    heads.known = JSON.stringify(found);
    return found;
  },

  // What the page opens with is no answer to a link's question: pale until that has come.
  arrive() {
    const asks = new URLSearchParams(location.search);
    if (!["text", "recipes", "run", "sample", "model"].some((name) => asks.has(name))) return;
    document.body.classList.add("arriving");
    const end = Date.now() + 6000;
    let first = "";
    const timer = setInterval(() => {
      const now = document.getElementById("lanes")?.innerHTML || "";
      first ||= now;
      if (now === first && Date.now() < end && !document.querySelector("#question-error .failure")) return;
      clearInterval(timer);
      document.body.classList.remove("arriving");
    }, 50);
  },

  // Goes where a link within the page leads; a link of the strip changes the place alone.
  visit(query, place) {
    if (place) {
      const fields = new URLSearchParams(location.search);
      place === "try" ? fields.delete("place") : fields.set("place", place);
      query = "?" + fields;
    }
    const asked = heads.asked;
    heads.arriving = clearInterval(heads.arriving);
    heads.remember(query, heads.placeOf(query));
    heads.asked = asked;  // what the link asks is still to be asked
    heads.go();
    if (!place) heads.reveal(query);
  },

  // Writes into the URL where one is: a step that Back takes back, unless only words have changed.
  // The place is the browser's own: what was asked in one of them may be answered when one is in
  // another, and takes nobody back.
  remember(query, place = heads.placeOf(location.search)) {
    if (heads.arriving) return;  // the long text of the address is not asked yet
    const before = new URLSearchParams(location.search);
    const rest = [...new URLSearchParams(query)].filter(([name]) => name !== "place");
    const next = new URLSearchParams(place === "try" ? rest : [["place", place], ...rest]);
    const step = (fields) => ["place", "run", "sample", "model", "recipes", "lane", "show", "result",
      "head"].map((name) => fields.get(name) || "").join("|");
    const moved = step(next) !== step(before);
    for (const name of heads.kept)
      if (before.has(name)) next.set(name, before.get(name));
    // A long text stays in the tab: browsers and servers cut long addresses.
    const long = (next.get("text") || "").length + (next.get("pair") || "").length > heads.LONGEST;
    if (long) {
      const texts = JSON.stringify([next.get("text"), next.get("pair")]);
      const sum = [...texts].reduce((sum, sign) => (31 * sum + sign.codePointAt(0)) | 0, 1);
      const key = (sum >>> 0).toString(36);
      try { sessionStorage.setItem("heads-text-" + key, texts); }
      catch {  // full: older steps back lose their texts
        sessionStorage.clear(); sessionStorage.setItem("heads-text-" + key, texts); }
      next.delete("text"); next.delete("pair"); next.set("long", key);
    } else next.delete("long");
    const url = location.pathname + (next.size ? "?" + next : "");
    const isSame = next.toString() === before.toString();
    if (!isSame) history[moved ? "pushState" : "replaceState"](null, "", url);
    heads.asked = heads.search();
    if (!isSame) heads.place();
  },

  LONGEST: 1500,  // letters of an address

  // What the address asks, with a text that is too long to stand in it.
  search() {
    const fields = new URLSearchParams(location.search);
    if (!fields.has("long")) return location.search;
    const [text, pair] = JSON.parse(sessionStorage.getItem("heads-text-" + fields.get("long")) || "[]");
    fields.delete("long");
    if (text) fields.set("text", text);
    if (pair) fields.set("pair", pair);
    return "?" + fields;
  },

  // Gradio 6.31 may lose the sentence that the server sends while the page is being built. Restore
  // it from the URL; only after two wrong checks in a row, as box and URL do not change at once.
  restoreText(opening) {
    let checks = 20, wrong = 0;
    clearInterval(heads.restoring);
    heads.restoring = setInterval(() => {
      const text = new URLSearchParams(heads.search()).get("text");
      const box = document.querySelector("#sentence textarea");
      if (!checks-- || !text || document.activeElement === box) return clearInterval(heads.restoring);
      wrong = box && box.value !== text && (box.value === opening || !opening) ? wrong + 1 : 0;
      if (wrong < 2) return;
      box.value = text;
      box.dispatchEvent(new Event("input", { bubbles: true }));
    }, 250);
  },

  // What the heads were last asked, and what they are to be asked now, when that is sent: of steps
  // in quick succession the last one counts.
  fromTo() {
    const before = heads.asked;
    heads.asked = heads.search();
    return [before, heads.asked];
  },

  // A section that a visitor has chosen stands in the query. Gradio says that one is chosen where
  // the page itself has opened it too, and that may be the answer to a step already taken back.
  chosenSection(query, show) {
    if (heads.section !== show) return query;
    heads.section = "";
    const fields = new URLSearchParams(query);
    show === "why" ? fields.delete("show") : fields.set("show", show);  // as the server writes it
    return "?" + fields;
  },

  placeOf(query) {
    const place = new URLSearchParams(query).get("place");
    return ["data", "learn"].includes(place) ? place : "try";
  },

  // Shows the place that the URL names.
  place() {
    const fields = new URLSearchParams(location.search), place = heads.placeOf(location.search);
    if (document.body.dataset.place !== place) {
      document.body.dataset.place = place;
      window.scrollTo(0, 0);
      requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));  // charts were hidden
    }
    for (const lane of document.querySelectorAll(".lane"))
      lane.classList.toggle("open", lane.dataset.lane === fields.get("lane"));
    document.body.classList.toggle("present", fields.has("present"));
    for (const link of document.querySelectorAll("#strip nav a"))
      link.dataset.place === place ? link.setAttribute("aria-current", "page")
        : link.removeAttribute("aria-current");
    document.title = ({ data: "Your data · ", learn: "Learn · " }[place] || "") + "Head to Head";
  },

  keys(event) {
    const link = event.target.closest?.("#strip nav a");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (link && step) {
      const all = [...document.querySelectorAll("#strip nav a")];
      const next = all[(all.indexOf(link) + step + all.length) % all.length];
      next.focus(); next.click();
    }
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    const menu = event.key === "Escape" && document.querySelector(".run .menu[open]");
    if (menu) { menu.open = false; return menu.querySelector("summary").focus(); }
    const close = event.key === "Escape" && !typing && !event.defaultPrevented
      && [...document.querySelectorAll("[data-do^=close]")].find((one) => one.offsetParent);
    if (close) {  // the focus goes back to what opened it
      const lane = new URLSearchParams(location.search).get("lane");
      const from = document.querySelector(close.dataset.do === "close-builder" ? "#parts [data-do=build]"
        : `.lane[data-lane="${lane}"] .sections button`);
      close.click();
      from?.focus();
    }
  },

  theme() {
    const dark = document.body.classList.toggle("dark");
    const fields = new URLSearchParams(location.search);
    fields.set("__theme", dark ? "dark" : "light");
    history.replaceState(null, "", location.pathname + "?" + fields);
  },

  copy(button, text) {
    const told = text.startsWith("?") ? location.origin + location.pathname + text : text;
    const before = (button.dataset.says ??= button.textContent);
    const done = (says) => { button.textContent = says;
      setTimeout(() => { button.textContent = before; }, 1500); };
    const by_hand = () => { const area = document.createElement("textarea"); area.value = told;
      document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); };
    (navigator.clipboard ? navigator.clipboard.writeText(told).catch(by_hand)
      : Promise.resolve(by_hand())).then(() => done("Copied"));
  },

  // A file made in the browser: what stands in it is written nowhere on the server.
  save(text, name) {
    if (!text) return;
    const link = document.createElement("a");
    const kind = name.endsWith(".csv") ? "text/csv" : "text/html";
    link.href = URL.createObjectURL(new Blob([text], { type: kind + ";charset=utf-8" }));
    link.download = name; link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  },

  // Brings the opened lane into view and the focus to its heading; back to the lane when it closes.
  reveal(query, tries = 40) {
    if (!new URLSearchParams(query).get("lane")) return;
    const panel = document.getElementById("panel"), title = panel?.querySelector("h2");
    if (!title?.offsetParent)  // it comes with the answer
      return tries && setTimeout(() => heads.reveal(query, tries - 1), 150);
    panel.scrollIntoView({ block: "start", behavior: "smooth" });
    title.focus({ preventScroll: true });
  },

  // Clicks on points of a chart, and a name for those who do not see it.
  charts(trigger) {
    heads.chosen = trigger;  // of the component that is there now
    if (heads.watches) return;
    heads.watches = true;
    new MutationObserver(() => {
      for (const chart of document.querySelectorAll(".js-plotly-plot")) {
        if (chart.dataset.heads || !chart.on) continue;
        chart.dataset.heads = "yes";
        chart.on("plotly_click", (event) => {
          const data = event.points?.[0]?.customdata;
          const name = Array.isArray(data) ? data[0] : data;
          if (name) heads.chosen("select", { fields: { head: String(name) } });
        });
      }
      for (const said of document.querySelectorAll("[data-chart]")) {
        const chart = document.querySelector(`#${said.dataset.chart} .js-plotly-plot`);
        if (chart && chart.getAttribute("aria-label") !== said.textContent.trim()) {
          chart.setAttribute("role", "img");
          chart.setAttribute("aria-label", said.textContent.trim());
        }
      }
    }).observe(document.body, { childList: true, subtree: true });
  },
};
document.addEventListener("DOMContentLoaded", () => heads.place());
