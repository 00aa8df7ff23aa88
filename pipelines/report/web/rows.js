"use strict";
// Where the explorer's rows come from: from the page itself, or from the server of `evalbeam view`. Both answer alike.
//
// find(query, page, size)  -> {count, page, rows, problem}: the rows of a page of what a query finds, the last page if
//                             there are fewer; problem says why a query cannot be asked, "" if it can
// open(id, trial, query, size) -> {row, trials, page, place}: a whole row, all trials of its instance, and where the
//                             query finds it (place -1: nowhere); null if there is no such row
//
// A row has get(name), the names of its groups of failures, whether only its scores are known, and once it is opened the
// spans of its trace, null without one: name, kind, level, start and took (milliseconds), error. A query has what the
// address keeps: q, status, fault, slice and range by column, sort, and the columns that are shown.

const rowSources = (() => {
  const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/g;
  const UNSEEN_ONE = new RegExp(UNSEEN.source);
  const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  const SLICE = 10; // milliseconds for which a page that is read prepares the search, before it looks up

  // Most texts have nothing to replace; to know that is twice as fast as to replace nothing.
  const clean = (text) =>
    UNSEEN_ONE.test(text)
      ? text.replace(LONE, "\ufffd").replace(UNSEEN, (c) => (c >= "\ud800" && c <= "\udfff" ? c : "\ufffd"))
      : text;
  const asText = (value) =>
    value === null || value === undefined ? "" : clean(typeof value === "string" ? value : JSON.stringify(value));
  const isNumber = (column) => ["float64", "int64"].includes(column.type);

  function parseRange(words) {
    const [low, high] = words.split("..");
    return [low === "" || low === undefined ? -Infinity : Number(low), high === "" || high === undefined ? Infinity : Number(high)];
  }

  // ------------------------------------------------------------------------------------------- rows of the page itself

  function embedded(data) {
    const columns = new Map();
    for (const column of data.columns) {
      const { places, different, values, all } = column;
      column.at = places ? (i) => different[places[i]] : values ? (i) => values[i] : () => all;
      columns.set(column.name, column);
    }
    const get = (name, i) => {
      const column = columns.get(name);
      const value = column ? column.at(i) : null;
      return value === undefined ? null : value;
    };
    const partial = new Set(data.partial);
    const groups = new Map(data.groups.map((name, number) => [name, number]));
    const makeRow = (i) => ({ get: (name) => get(name, i), faults: data.faults[i].map((one) => data.groups[one]), partial: partial.has(i), spans: data.spans[i] ?? null });

    // ------------------------------------------------------------------------------------------------ search

    const searched = data.columns.filter((column) => ["string", "json", "timestamp"].includes(column.type));
    const own = searched.filter((column) => column.values); // others have few different values, each looked at once
    const lower = new Array(data.rows); // of each row, its own texts

    function textOf(column, i) { // as text, each different value once
      if (column.all !== undefined) return (column.text ??= asText(column.all));
      const texts = (column.texts ??= new Array((column.different || column.values).length));
      const place = column.places ? column.places[i] : i;
      return (texts[place] ??= asText(column.at(i)));
    }

    function lowerOf(i) {
      return (lower[i] ??= own.map((column) => textOf(column, i)).filter(Boolean).join("\n").toLowerCase());
    }

    function prepare(i = 0) {
      const until = performance.now() + SLICE;
      while (i < data.rows && performance.now() < until) lowerOf(i++);
      if (i < data.rows) setTimeout(prepare, 0, i);
    }

    function makeWordTest(word) {
      const has = (value) => asText(value).toLowerCase().includes(word);
      if (searched.some((column) => column.all !== undefined && has(column.all))) return () => true;
      const few = searched.filter((column) => column.places).map(({ places, different }) => [places, different.map(has)]);
      const hits = few.filter(([, matches]) => matches.includes(true));
      return (i) => hits.some(([places, matches]) => matches[places[i]]) || lowerOf(i).includes(word);
    }

    function makeSearch(query) {
      const regex = /^\/(.+)\/([a-z]*)$/s.exec(query);
      if (!regex) {
        const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map(makeWordTest);
        return (i) => tests.every((test) => test(i));
      }
      const pattern = new RegExp(regex[1], regex[2].replace(/[gy]/g, "") || "i");
      const tests = searched.map((column) => {
        if (column.all !== undefined) return () => pattern.test(textOf(column, 0));
        if (!column.places) return (i) => pattern.test(textOf(column, i));
        const known = new Array(column.different.length); // of each different value, whether it matches
        return (i) => (known[column.places[i]] ??= pattern.test(textOf(column, i)));
      });
      return (i) => tests.some((test) => test(i));
    }

    // ------------------------------------------------------------------------------------------------ filter and sort

    function listTests(query) {
      const tests = [];
      if (query.status) tests.push((i) => get("status", i) === query.status);
      if (query.fault) {
        const group = groups.get(query.fault);
        tests.push(query.fault === "*" ? (i) => data.faults[i].length > 0 : (i) => data.faults[i].includes(group));
      }
      for (const [name, value] of Object.entries(query.slice)) tests.push((i) => asText(get(name, i)) === value);
      for (const [name, words] of Object.entries(query.range)) {
        const [low, high] = parseRange(words);
        tests.push((i) => {
          const value = get(name, i);
          return typeof value === "number" && value >= low && value <= high;
        });
      }
      if (query.q) tests.push(makeSearch(query.q));
      return tests;
    }

    function sortRows(found, sort) {
      const column = columns.get(sort.replace(/^-/, ""));
      if (!column) return;
      const sign = sort.startsWith("-") ? -1 : 1;
      const empty = (value) => value === null || value === undefined;
      const keys = new Map(found.map((i) => [i, isNumber(column) ? column.at(i) : column.at(i) === null ? null : textOf(column, i)]));
      found.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (empty(x) || empty(y)) return empty(x) - empty(y) || a - b; // rows without a value stand last
        return x < y ? -sign : x > y ? sign : a - b;
      });
    }

    let answered = "";
    let found = [];
    let problem = "";

    function ask({ cols, ...query }) {
      const asked = JSON.stringify(query);
      if (asked === answered) return;
      answered = asked;
      problem = "";
      let tests = [];
      try {
        tests = listTests(query);
      } catch (error) {
        problem = `Not a regular expression: ${error.message}`;
        tests = listTests({ ...query, q: "" });
      }
      found = [];
      for (let i = 0; i < data.rows; i++) if (tests.every((test) => test(i))) found.push(i);
      sortRows(found, query.sort);
    }

    async function find(query, page, size) {
      ask(query);
      const shown = Math.min(page, Math.max(0, Math.ceil(found.length / size) - 1));
      return { count: found.length, page: shown, rows: found.slice(shown * size, (shown + 1) * size).map(makeRow), problem };
    }

    const byInstance = new Map();
    for (let i = 0; i < data.rows; i++) {
      const id = get("instance_id", i);
      if (byInstance.has(id)) byInstance.get(id).push(i);
      else byInstance.set(id, [i]);
    }

    async function open(id, trial, query, size) {
      const trials = byInstance.get(id);
      if (!trials) return null;
      const i = trials.find((one) => String(get("trial", one) || "") === trial) ?? trials[0];
      ask(query);
      const place = found.indexOf(i);
      return { row: makeRow(i), trials: trials.map(makeRow), page: place < 0 ? 0 : Math.floor(place / size), place: place < 0 ? -1 : place % size };
    }

    // ------------------------------------------------------------------------------------------------ what there is

    function countBy(read) {
      const counts = new Map();
      for (let i = 0; i < data.rows; i++) {
        const value = read(i);
        counts.set(value, (counts.get(value) || 0) + 1);
      }
      return [...counts].sort((a, b) => b[1] - a[1]);
    }

    const faults = new Map();
    for (const row of data.faults) for (const group of row) faults.set(data.groups[group], (faults.get(data.groups[group]) || 0) + 1);
    setTimeout(prepare, 0);
    return {
      ...data, find, open, pause: 0,
      statuses: countBy((i) => asText(get("status", i))),
      sliceValues: data.slices.map((name) => [name, countBy((i) => asText(get(name, i))).slice(0, 500)]),
      faultCounts: [...faults].sort((a, b) => b[1] - a[1]),
    };
  }

  // ------------------------------------------------------------------------------------------------ rows of a server

  function served(data) {
    const makeRow = ({ values, faults, spans }) => ({ get: (name) => values[name] ?? null, faults, partial: false, spans: spans ?? null });
    let asking = new AbortController();

    function encode(query, page, size) {
      const parts = new URLSearchParams({ page, size });
      for (const key of ["q", "status", "fault", "sort"]) if (query[key]) parts.set(key, query[key]);
      for (const [name, value] of Object.entries(query.slice)) parts.set(`slice.${name}`, value);
      for (const [name, value] of Object.entries(query.range)) parts.set(`range.${name}`, value);
      for (const name of query.cols) parts.append("col", name);
      return parts;
    }

    async function ask(path, signal) {
      let answer;
      try {
        answer = await fetch(path, { signal });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Error("The server does not answer: evalbeam view has ended.");
      }
      if (!answer.ok) throw new Error(await answer.text());
      return answer.json();
    }

    async function find(query, page, size) {
      asking.abort(); // what is still asked is no longer wanted, and the server stops looking for it
      asking = new AbortController();
      const found = await ask(`rows?${encode(query, page, size)}`, asking.signal);
      return { ...found, rows: found.rows.map(makeRow) };
    }

    async function open(id, trial, query, size) {
      const parts = encode(query, 0, size);
      parts.set("row", id);
      parts.set("trial", trial);
      const found = await ask(`row?${parts}`);
      return found && { ...found, row: makeRow(found.row), trials: found.trials.map(makeRow) };
    }

    return { ...data, find, open, pause: 150 };
  }

  return { clean, asText, isNumber, make: (data) => (data.served ? served(data) : embedded(data)) };
})();
