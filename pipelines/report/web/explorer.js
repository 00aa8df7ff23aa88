"use strict";
// The explorer of a run's rows. Everything it shows is set as text, so that nothing in a row is read as HTML. The state
// stands in the address after "#": a link opens what its author saw.

(() => {
  const root = document.getElementById("explorer");
  const given = document.getElementById("rows");
  if (!root || !given) return;
  const { clean, asText, isNumber } = rowSources;
  const source = rowSources.make(JSON.parse(given.textContent));
  given.textContent = "";

  const PAGE = 50;
  const WORDS = 4000; // a longer text is compared line by line, a still longer one not at all

  // ------------------------------------------------------------------------------------------------- small helpers

  const pretty = (value) => (typeof value === "string" ? clean(value) : clean(JSON.stringify(value, null, 2)));
  const asNumber = (value) => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4))));
  const shown = (value) => (typeof value === "number" ? asNumber(value) : asText(value));

  function make(tag, className, ...children) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  function text(tag, className, value) {
    const element = make(tag, className);
    element.textContent = clean(String(value));
    if (className !== "n") element.dir = "auto";
    return element;
  }

  function button(words, act, className = "") {
    const element = text("button", className, words);
    element.type = "button";
    element.addEventListener("click", act);
    return element;
  }

  // ---------------------------------------------------------------------------------------------------- the columns

  const columns = new Map(source.columns.map((column) => [column.name, column]));
  const { roles } = source;
  const get = (name, row) => row.get(name);
  const metrics = [...columns.keys()].filter((name) => name.endsWith("/score")).map((name) => name.slice(0, -6));
  const scoreOf = (metric) => (columns.has(`${metric}/score`) ? `${metric}/score` : metric);
  const titleOf = (name) => (name.endsWith("/score") ? name.slice(0, -6) : name);

  // ------------------------------------------------------------------------------------------------------ the state

  const preferred = ["status", roles.prompt, roles.response, ...source.slices];
  const usual = source.shown?.length ? source.shown : [...new Set([...preferred, ...metrics.slice(0, 4).map(scoreOf), "latency_in_seconds"])];
  const initial = () => ({
    q: "", status: "", fault: "", slice: {}, range: {}, sort: source.sort ?? "", cols: usual.filter((name) => columns.has(name)),
    page: 0, row: "", trial: "",
  });
  let state = initial();
  let found = { count: 0, page: 0, rows: [], problem: "" };
  let cursor = -1;

  function readHash() {
    const next = initial();
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
      if (key.startsWith("slice.")) next.slice[key.slice(6)] = value;
      else if (key.startsWith("range.")) next.range[key.slice(6)] = value;
      else if (key === "cols") next.cols = value.split("\u001f").filter((name) => columns.has(name));
      else if (key === "page") next.page = Math.max(0, (parseInt(value, 10) || 1) - 1);
      else if (["q", "status", "fault", "sort", "row", "trial"].includes(key)) next[key] = value;
    }
    return next;
  }

  function writeHash() {
    const parts = new URLSearchParams();
    for (const key of ["q", "status", "fault", "row", "trial"]) if (state[key]) parts.set(key, state[key]);
    if (state.sort !== initial().sort) parts.set("sort", state.sort);
    for (const [name, value] of Object.entries(state.slice)) parts.set(`slice.${name}`, value);
    for (const [name, value] of Object.entries(state.range)) parts.set(`range.${name}`, value);
    if (state.page) parts.set("page", state.page + 1);
    if (state.cols.join("\u001f") !== initial().cols.join("\u001f")) parts.set("cols", state.cols.join("\u001f"));
    const hash = parts.toString();
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  }

  // -------------------------------------------------------------------------------------------------- the controls

  const controls = make("div", "controls");
  const table = make("div", "wide rows");
  table.tabIndex = 0;
  table.setAttribute("role", "region");
  table.setAttribute("aria-label", "rows of the run");
  const counter = make("p", "soft count");
  counter.setAttribute("role", "status");
  const pager = make("div", "pager");
  const panel = document.createElement("dialog");
  panel.className = "panel";
  panel.setAttribute("aria-label", "one row");

  function change(changes) {
    Object.assign(state, { page: 0, row: "", trial: "" }, changes);
    cursor = -1;
    show();
  }

  function label(words, control) {
    return make("label", "control", text("span", "", words), control);
  }

  function choice(words, options, value, act) {
    const select = document.createElement("select");
    for (const [key, title] of options) {
      const option = text("option", "", title);
      option.value = key;
      select.append(option);
    }
    select.value = value;
    select.addEventListener("change", () => act(select.value));
    return label(words, select);
  }

  const shorten = (words, most = 60) => (words.length > most ? `${words.slice(0, most)}…` : words);
  const counted = (pairs) => pairs.map(([value, count]) => [value, `${shorten(value || "–")} (${count.toLocaleString("en")})`]);
  const statuses = counted(source.statuses);
  const sliceValues = new Map(source.sliceValues.map(([name, values]) => [name, counted(values)]));
  const faults = counted(source.faultCounts);

  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "words, or /regex/";
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => change({ q: search.value }), source.pause);
  });

  // The controls are drawn once, since lists of hundreds of values would take longer than to filter the rows.
  const ranges = make("span", "ranges");
  const chooser = make("span", "");
  const settings = drawSettings();

  function drawSettings() {
    const all = [["", "all"]];
    const choices = [[choice("Status", [...all, ...statuses], "", (status) => change({ status })), () => state.status]];
    if (faults.length) {
      const options = [...all, ["*", "any failure"], ...faults];
      choices.push([choice("Failure", options, "", (fault) => change({ fault })), () => state.fault]);
    }
    for (const [name, options] of sliceValues) {
      choices.push([choice(name, [...all, ...options], "", (value) => {
        const { [name]: old, ...rest } = state.slice;
        change({ slice: value === "" ? rest : { ...rest, [name]: value } });
      }), () => state.slice[name] ?? ""]);
    }
    controls.append(label("Search", search), ...choices.map(([control]) => control), ranges, chooser);
    return choices.map(([control, read]) => [control.querySelector("select"), read]);
  }

  function drawControls() {
    if (document.activeElement !== search) search.value = state.q;
    for (const [select, read] of settings) select.value = read();
    ranges.replaceChildren(...drawRanges());
    drawChooser();
  }

  function drawRanges() {
    const numbers = source.columns.filter(isNumber).map((column) => column.name);
    const options = [["", "add …"], ...numbers.map((name) => [name, titleOf(name)])];
    const add = choice("Range of", options, "", (name) => name && change({ range: { ...state.range, [name]: ".." } }));
    const parts = Object.entries(state.range).map(([name, words]) => {
      const ends = words.split("..").map((value, side) => {
        const input = document.createElement("input");
        input.type = "number";
        input.step = "any";
        input.value = value;
        input.setAttribute("aria-label", `${side ? "highest" : "lowest"} ${titleOf(name)}`);
        input.addEventListener("change", () => {
          const next = state.range[name].split("..");
          next[side] = input.value;
          change({ range: { ...state.range, [name]: next.join("..") } });
        });
        return input;
      });
      const { [name]: old, ...rest } = state.range;
      const remove = button("×", () => change({ range: rest }));
      remove.setAttribute("aria-label", `no range of ${titleOf(name)}`);
      return make("span", "range control", text("span", "", titleOf(name)), make("span", "ends", ...ends, remove));
    });
    return [add, ...parts];
  }

  let chosen = "";

  function drawChooser() {
    const now = state.cols.join("\u001f");
    if (now === chosen) return;
    chosen = now;
    const box = make("details", "chooser", text("summary", "", `Columns (${state.cols.length})`));
    box.open = chooser.firstChild ? chooser.firstChild.open : false;
    const list = make("div", "choices");
    for (const name of columns.keys()) {
      const input = document.createElement("input");
      input.type = "checkbox";
      input.checked = state.cols.includes(name);
      input.addEventListener("change", () => {
        const wanted = new Set(state.cols);
        if (input.checked) wanted.add(name);
        else wanted.delete(name);
        state.cols = [...columns.keys()].filter((one) => wanted.has(one));
        show();
      });
      list.append(make("label", "", input, text("span", "", name)));
    }
    const top = chooser.querySelector(".choices")?.scrollTop ?? 0;
    box.append(list);
    chooser.replaceChildren(box);
    list.scrollTop = top;
  }

  // ------------------------------------------------------------------------------------------------------ the table

  function drawTable() {
    const grid = make("table", "");
    const head = make("tr", "");
    for (const name of state.cols) {
      const sorted = state.sort.replace(/^-/, "") === name ? (state.sort.startsWith("-") ? "descending" : "ascending") : "none";
      const mark = sorted === "none" ? "" : sorted === "ascending" ? " ↑" : " ↓";
      const cell = make("th", isNumber(columns.get(name)) ? "n" : "", button(titleOf(name) + mark, () => {
        state.page = 0;
        state.sort = sorted === "ascending" ? `-${name}` : sorted === "descending" ? "" : name;
        show();
      }));
      cell.scope = "col";
      cell.setAttribute("aria-sort", sorted);
      head.append(cell);
    }
    const body = make("tbody", "");
    found.rows.forEach((row, place) => body.append(drawRow(row, place)));
    grid.append(make("thead", "", head), body);
    table.replaceChildren(grid);
    const kept = source.rows < source.total ? ` The page holds ${source.rows.toLocaleString("en")} of ${source.total.toLocaleString("en")} rows.` : "";
    const words = `${found.count.toLocaleString("en")} of ${source.rows.toLocaleString("en")} rows.${kept}`;
    counter.textContent = found.problem ? clean(found.problem) : words;
    drawPager();
  }

  function drawRow(row, place) {
    const line = make("tr", row.faults.length ? "failing" : "");
    line.tabIndex = 0;
    line.dataset.place = place;
    for (const name of state.cols) {
      const value = get(name, row);
      const status = titleOf(name) !== name ? get(`${titleOf(name)}/status`, row) : null;
      const missing = value === null && status && status !== "scored" ? status : "";
      if (isNumber(columns.get(name))) line.append(text("td", value === null ? "n none" : "n", value === null ? missing || "–" : asNumber(value)));
      else line.append(text("td", value === null ? "none" : "t", value === null ? "–" : shorten(asText(value), 200)));
    }
    line.addEventListener("click", () => openAt(place));
    line.addEventListener("focus", () => { cursor = place; });
    return line;
  }

  function drawPager() {
    const pages = Math.max(1, Math.ceil(found.count / PAGE));
    const go = (page) => () => {
      state.page = page;
      cursor = -1;
      show();
    };
    const back = button("← Previous", go(state.page - 1));
    const on = button("Next →", go(state.page + 1));
    back.disabled = state.page === 0;
    on.disabled = state.page >= pages - 1;
    pager.replaceChildren(back, text("span", "n", `Page ${state.page + 1} of ${pages}`), on);
    pager.hidden = pages === 1;
  }

  // ---------------------------------------------------------------------------------------------------- keys and row

  async function move(step) {
    const from = cursor < 0 ? (step > 0 ? -1 : 0) : cursor;
    const at = state.page * PAGE + from + step;
    if (at < 0 || at >= found.count) return;
    const page = Math.floor(at / PAGE);
    cursor = at % PAGE;
    if (page !== state.page) {
      state.page = page;
      if (!(await ask())) return;
      drawTable();
    }
    if (state.row) await openAt(cursor);
    else table.querySelector(`tr[data-place="${cursor}"]`)?.focus();
  }

  async function openAt(place) {
    const row = found.rows[place];
    if (row === undefined) return;
    cursor = place;
    await open(get("instance_id", row), String(get("trial", row) || ""), false);
  }

  function closeRow() {
    state.row = state.trial = "";
    writeHash();
    table.querySelector(`tr[data-place="${cursor}"]`)?.focus();
  }

  panel.addEventListener("close", closeRow);
  panel.addEventListener("click", (event) => { if (event.target === panel) panel.close(); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "Enter" && event.target.tagName === "TR") openAt(cursor);
    else if (event.key === "/" && !panel.open) {
      event.preventDefault();
      search.focus();
    }
  });

  // ------------------------------------------------------------------------------------------------- differences

  function align(left, right, same) {
    // Longest common subsequence; yields [left or undefined, right or undefined].
    const lengths = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
    for (let i = left.length - 1; i >= 0; i--) {
      for (let j = right.length - 1; j >= 0; j--) {
        lengths[i][j] = same(left[i], right[j]) ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      }
    }
    const pairs = [];
    let [i, j] = [0, 0];
    while (i < left.length || j < right.length) {
      if (i < left.length && j < right.length && same(left[i], right[j])) pairs.push([left[i++], right[j++]]);
      else if (j >= right.length || (i < left.length && lengths[i + 1][j] >= lengths[i][j + 1])) pairs.push([left[i++], undefined]);
      else pairs.push([undefined, right[j++]]);
    }
    return pairs;
  }

  function split(words) {
    const parts = words.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];
    return parts.length <= 1000 ? parts : words.match(/[^\n]*\n?/g).filter(Boolean);
  }

  function drawDifference(expected, actual) {
    const [left, right] = [clean(expected), clean(actual)];
    const [before, after] = [make("pre", ""), make("pre", "")];
    before.dir = after.dir = "auto";
    const [a, b] = [split(left), split(right)];
    if (a.length > WORDS || b.length > WORDS) {
      before.textContent = left;
      after.textContent = right;
    } else {
      for (const [one, other] of align(a, b, (x, y) => x === y)) {
        if (one !== undefined) before.append(other === undefined ? text("del", "", one) : one);
        if (other !== undefined) after.append(one === undefined ? text("ins", "", other) : other);
      }
    }
    return beside([["Expected", before], ["Response", after]]);
  }

  function beside(parts) {
    return make("div", "beside", ...parts.map(([title, body]) => make("div", "", text("h4", "", title), body)));
  }

  const asCalls = (value) => (Array.isArray(value) ? value : value && Array.isArray(value.tool_calls) ? value.tool_calls : null);
  const nameOf = (call) => asText(call.tool_name ?? call.name ?? call.function?.name ?? "");
  const inputOf = (call) => {
    const given = call.tool_input ?? call.args ?? call.arguments ?? call.function?.arguments ?? {};
    if (typeof given !== "string") return given;
    try {
      return JSON.parse(given);
    } catch {
      return given;
    }
  };
  const canonical = (value) =>
    JSON.stringify(value, (_, one) => (one && typeof one === "object" && !Array.isArray(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one));

  function alignCalls(reference, predicted) {
    const pairs = align(reference, predicted, (a, b) => nameOf(a) === nameOf(b));
    const joined = [];
    for (const pair of pairs) { // a missing call beside an extra one is a wrong tool
      const last = joined[joined.length - 1];
      if (last && pair[0] === undefined && last[1] === undefined) last[1] = pair[1];
      else if (last && pair[1] === undefined && last[0] === undefined) last[0] = pair[0];
      else joined.push([...pair]);
    }
    return joined;
  }

  function judgeStep([expected, actual]) {
    if (expected === undefined) return "extra";
    if (actual === undefined) return "missing";
    if (nameOf(expected) !== nameOf(actual)) return "wrong tool";
    return canonical(inputOf(expected)) === canonical(inputOf(actual)) ? "same" : "wrong argument";
  }

  function drawCall(call, other) {
    if (call === undefined) return text("td", "none", "–");
    const given = inputOf(call);
    const cell = make("td", "", text("b", "", nameOf(call) || "–"));
    if (given && typeof given === "object" && !Array.isArray(given)) {
      const others = other && nameOf(other) === nameOf(call) ? inputOf(other) : null;
      for (const [key, value] of Object.entries(given)) {
        const differs = others && typeof others === "object" && canonical(others[key]) !== canonical(value);
        cell.append(text(differs ? "mark" : "span", "argument", `${clean(key)} = ${shown(value)}`));
      }
    } else cell.append(text("span", "argument", shown(given)));
    return cell;
  }

  function drawTrajectories(row) {
    const [reference, predicted] = [get(roles.reference_trajectory, row), get(roles.predicted_trajectory, row)];
    if (reference === null && predicted === null) return null;
    const [left, right] = [asCalls(reference), asCalls(predicted)];
    if ((reference !== null && !left) || (predicted !== null && !right)) {
      return section("Trajectory", beside([["Expected", block(reference)], ["Actual", block(predicted)]]));
    }
    const grid = make("table", "steps", make("thead", "", make("tr", "", text("th", "n", "#"), text("th", "", "Expected"), text("th", "", "Actual"), text("th", "", ""))));
    const body = make("tbody", "");
    const pairs = left ? alignCalls(left.slice(0, 500), (right || []).slice(0, 500)) : right.map((call) => [undefined, call]);
    pairs.forEach((pair, place) => {
      const verdict = left ? judgeStep(pair) : "";
      const line = make("tr", verdict.replace(" ", "-"), text("td", "n", String(place + 1)), drawCall(pair[0], pair[1]), drawCall(pair[1], pair[0]), text("td", "verdict-cell", verdict));
      body.append(line);
    });
    if (!pairs.length) body.append(make("tr", "", text("td", "none", ""), text("td", "none", "no calls"), text("td", "none", "no calls")));
    grid.append(body);
    return section("Trajectory", make("div", "wide", grid));
  }

  const asTime = (milliseconds) => (milliseconds < 1000 ? `${asNumber(milliseconds)} ms` : `${asNumber(milliseconds / 1000)} s`);

  function drawBar({ start, took, error }, whole) {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const part = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const [left, width] = whole ? [(100 * start) / whole, (100 * took) / whole] : [0, 100];
    for (const [name, value] of Object.entries({ x: `${Math.min(left, 99.5)}%`, width: `${Math.max(width, 0.5)}%`, height: "100%", rx: 2 })) part.setAttribute(name, value);
    bar.setAttribute("class", error === undefined ? "time" : "time failed");
    bar.setAttribute("aria-hidden", "true");
    bar.append(part);
    return bar;
  }

  function drawSpans({ spans }) {
    if (!spans || !spans.length) return null;
    const whole = Math.max(...spans.map((span) => span.start + span.took));
    const body = spans.map((span) => {
      const name = make("th", "", text("span", "", span.name || "–"), " ", text("small", "", span.kind === "UNKNOWN" ? "" : span.kind.toLowerCase().replaceAll("_", " ")));
      name.scope = "row";
      name.style.paddingLeft = `${0.2 + Math.min(span.level, 12) * 0.9}rem`;
      if (span.error !== undefined) name.append(text("div", "FAILED", span.error));
      return make("tr", "", name, make("td", "", drawBar(span, whole)), text("td", "n", asTime(span.start)), text("td", "n", asTime(span.took)));
    });
    const head = make("tr", "", text("th", "", "Span"), text("th", "", ""), text("th", "n", "Start"), text("th", "n", "Took"));
    return section("Timeline", make("div", "wide", make("table", "spans", make("thead", "", head), make("tbody", "", ...body))));
  }

  // ---------------------------------------------------------------------------------------------------- one row

  const section = (title, ...body) => make("section", "", text("h3", "", title), ...body);
  function block(value) {
    const element = make("pre", "");
    element.dir = "auto";
    element.textContent = value === null || value === undefined ? "–" : pretty(value);
    return element;
  }

  function drawScores(row) {
    const lines = metrics.map((metric) => drawScore(metric, row)).filter(Boolean);
    if (!lines.length) return null;
    const head = make("tr", "", text("th", "", "Metric"), text("th", "n", "Score"), text("th", "", "Why"));
    return section("Scores", make("div", "wide", make("table", "scores", make("thead", "", head), make("tbody", "", ...lines))));
  }

  function drawScore(metric, row) {
    const [score, status] = [get(`${metric}/score`, row), get(`${metric}/status`, row)];
    const why = make("td", "t");
    const [error, explanation, choice] = ["error", "explanation", "pairwise_choice"].map((part) => get(`${metric}/${part}`, row));
    if (error) why.append(text("div", status === "error" ? "FAILED" : "soft", asText(error)));
    if (choice) why.append(text("div", "", `choice: ${asText(choice)}`));
    if (explanation) why.append(text("div", "explanation", asText(explanation)));
    const before = get(`${metric}/before`, row);
    if (before !== null) why.append(text("small", "", `before ${shown(before)}`));
    const confidence = get(`${metric}/confidence`, row);
    if (confidence !== null) why.append(text("small", "", `confidence ${shown(confidence)}`));
    drawDetails(get(`${metric}/details`, row), why);
    if (score === null && !status) return null;
    const failed = row.faults.some((group) => group.startsWith(`${metric} is `) || group.startsWith(`${metric}: `));
    const value = text("td", "n", score === null ? status || "–" : shown(score));
    if (failed) value.classList.add("FAILED");
    return make("tr", "", text("th", "", metric), value, why);
  }

  function drawDetails(details, why) {
    if (details === null) return;
    const votes = details && Array.isArray(details.votes) ? details.votes : [];
    if (votes.length) {
      const list = make("ul", "votes");
      for (const vote of votes) {
        const words = [vote.judge, shown(vote.verdict ?? vote.score ?? vote.choice ?? null)].filter(Boolean).map(asText).join(": ");
        list.append(make("li", "", text("b", "", words), vote.explanation ? text("span", "", ` ${asText(vote.explanation)}`) : null));
      }
      why.append(list);
    }
    const rest = votes.length ? Object.fromEntries(Object.entries(details).filter(([key]) => key !== "votes")) : details;
    if (rest && typeof rest === "object" && !Object.keys(rest).length) return;
    const words = asText(rest);
    if (words.length <= 120) why.append(text("small", "", words));
    else why.append(make("details", "", text("summary", "", "details"), block(rest)));
  }

  function drawTurns(row) {
    const turns = get("turns", row);
    if (!Array.isArray(turns) || !turns.length) return null;
    const list = make("ol", "turns");
    for (const turn of turns) {
      const line = make("li", "", turn.prompt ? make("div", "turn user", text("small", "", "user"), block(turn.prompt)) : null);
      if (turn.response !== undefined) line.append(make("div", "turn agent", text("small", "", "agent"), block(turn.response)));
      const calls = asCalls(turn.predicted_trajectory) || [];
      for (const call of calls) line.append(text("code", "", `${nameOf(call)}(${shown(inputOf(call))})`));
      const { prompt, response, predicted_trajectory, ...rest } = turn;
      if (Object.keys(rest).length) line.append(make("details", "", text("summary", "", Object.keys(rest).map(clean).join(", ")), block(rest)));
      list.append(line);
    }
    return section("Conversation", list);
  }

  function drawTrials(row, trials) {
    if (trials.length < 2) return null;
    const head = make("tr", "", text("th", "", ""));
    const lines = [["response", roles.response], ["status", "status"], ...metrics.map((metric) => [metric, `${metric}/score`])];
    for (const one of trials) {
      const choose = button(`trial ${get("trial", one)}`, () => open(get("instance_id", one), String(get("trial", one) || ""), true));
      choose.disabled = get("trial", one) === get("trial", row);
      head.append(make("th", "", choose));
    }
    const body = lines.map(([title, name]) =>
      make("tr", "", text("th", "", title), ...trials.map((one) => text("td", isNumber(columns.get(name) || {}) ? "n" : "t", shown(get(name, one)) || "–"))));
    return section("Trials", make("div", "wide", make("table", "", make("thead", "", head), make("tbody", "", ...body))));
  }

  function drawRest(row) {
    const known = new Set([...Object.values(roles), "instance_id", "trial", "turns", "status"]);
    const list = make("dl", "facts");
    for (const name of columns.keys()) {
      const metric = metrics.find((one) => name.startsWith(`${one}/`));
      const value = get(name, row);
      if (known.has(name) || metric || value === null) continue;
      list.append(text("dt", "", name), make("dd", "", block(value)));
    }
    return list.children.length ? section("Other columns", list) : null;
  }

  async function open(id, trial, seek) {
    // Opens a row; to seek it is to show the page of the table on which it stands.
    Object.assign(state, { row: id, trial });
    writeHash();
    let opened = null;
    try {
      opened = await source.open(id, trial, askedFor(), PAGE);
    } catch (error) {
      counter.textContent = clean(error.message);
    }
    if (!opened || state.row !== id || state.trial !== trial) return;
    if (seek && opened.place >= 0) {
      state.page = opened.page;
      cursor = opened.place;
      if (await ask()) drawTable();
      writeHash();
    }
    openRow(opened);
  }

  function openRow({ row, trials }) {
    const id = get("instance_id", row);
    const trial = get("trial", row);
    const close = button("Close", () => panel.close(), "close");
    const steps = make("div", "moves", button("↑ k", () => move(-1)), button("↓ j", () => move(1)), close);
    const head = make("header", "", make("div", "", text("code", "", id), trial ? ` · trial ${trial}` : "", " ", text("span", `verdict ${get("status", row) === "ok" ? "PASSED" : "FAILED"}`, asText(get("status", row)))), steps);
    const why = make("ul", "why", ...row.faults.map((group) => text("li", "FAILED", group)));
    const [reference, response] = [get(roles.reference, row), get(roles.response, row)];
    const error = get("error_message", row);
    const answers = reference !== null && response !== null ? drawDifference(pretty(reference), pretty(response)) : beside([["Expected", block(reference)], ["Response", block(response)]]);
    const body = make("div", "body",
      why.children.length ? why : null,
      row.partial ? text("p", "soft", "The page holds only the scores of this row.") : null,
      get(roles.prompt, row) === null ? null : section("Prompt", block(get(roles.prompt, row))),
      error ? section("Error", block(`${asText(get("error_type", row))}: ${asText(error)}`)) : null,
      reference === null && response === null ? null : section("Answer", answers),
      drawTrajectories(row), drawSpans(row), drawTurns(row), drawScores(row), drawTrials(row, trials), drawRest(row),
      section("Whole row", block(`evalbeam show ${root.dataset.output} ${id}`)));
    panel.replaceChildren(head, body);
    if (!panel.open) panel.showModal();
    panel.scrollTop = 0;
    close.focus({ preventScroll: true });
  }

  // --------------------------------------------------------------------------------------------------------- start

  const askedFor = () => ({ q: state.q, status: state.status, fault: state.fault, slice: state.slice, range: state.range, sort: state.sort, cols: state.cols });
  let asked = 0;

  async function ask() {
    // Fills `found`; returns false if something else is asked for by then.
    const mine = ++asked;
    let answer;
    table.setAttribute("aria-busy", "true");
    try {
      answer = await source.find(askedFor(), state.page, PAGE);
    } catch (error) {
      answer = { count: 0, page: 0, rows: [], problem: error.message };
    }
    if (mine !== asked) return false;
    table.removeAttribute("aria-busy");
    found = answer;
    state.page = found.page;
    return true;
  }

  async function show() {
    drawControls();
    writeHash();
    if (!(await ask())) return;
    drawTable();
    writeHash();
  }

  async function start() {
    state = readHash();
    const { row, trial } = state;
    await show();
    if (row) await open(row, trial, true);
    else if (panel.open) panel.close();
  }

  root.replaceChildren(controls, counter, table, pager, panel);
  const arrive = () => !state.row && root.scrollIntoView({ behavior: "instant" });
  window.addEventListener("hashchange", () => start().then(arrive));
  const linked = location.hash.length > 1;
  start().then(() => {
    if (linked) arrive();
    root.dataset.ready = "true";
  });
})();
