"use strict";
const $ = (id) => document.getElementById(id);
const make = (tag, text, attributes) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  Object.assign(e, attributes || {});
  return e;
};
const row = (cells) => {
  const tr = make("tr");
  for (const c of cells) tr.append(c instanceof Node ? c : make("td", c));
  return tr;
};
// momentText is a moment without what goes without saying: its date if that is today's, and parts of a second.
const momentText = (at) => at.slice(at.startsWith(new Date().toISOString().slice(0, 10)) ? 11 : 0, 19).replace("T", " ");
let before = {}, boards = "";

async function ask(path, body) {
  const r = await fetch(path, body === undefined ? {} :
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const answer = await r.json();
  if (!r.ok) throw new Error(answer.message || r.statusText);
  return answer;
}

// answered is a query's answer as elements: one number, a chart with its table, or a table.
function answered(a) {
  if (a.rows.length === 1 && a.columns.length === 1) return [make("p", a.rows[0][0] || "none", { className: "big" })];
  const out = [];
  if (a.svg) {
    const svg = new DOMParser().parseFromString(a.svg, "image/svg+xml").documentElement;
    out.push(document.importNode(svg, true));
  }
  const table = make("table");
  if (a.columns.length > 4 && !a.svg) out.texts = true;
  const numeric = a.columns.map((_, i) => a.rows.length > 0 && a.rows.every((r) => r[i] === "" || !isNaN(r[i])));
  const head = row(a.columns.map((c, i) => make("th", c, { className: numeric[i] ? "n" : "", scope: "col" })));
  table.append(make("thead"), make("tbody"));
  table.tHead.append(head);
  for (const r of a.rows) table.tBodies[0].append(row(r.map((c, i) => make("td", c, { className: numeric[i] ? "n" : "" }))));
  const scroll = make("div", undefined, { className: "scroll", tabIndex: 0 });
  scroll.append(table);
  const rows = a.rows.length ? a.count + (a.count === 1 ? " row" : " rows") : "no rows";
  if (a.svg) {
    const d = make("details");
    d.append(make("summary", rows), scroll);
    out.push(d);
  } else if (a.rows.length) {
    out.push(scroll, make("p", rows));
  } else {
    out.push(make("p", rows));
  }
  return out;
}

async function show(target, apl, hours) {
  try {
    const found = answered(await ask("/fake/query", { apl, hours }));
    target.replaceChildren(...found);
    if (target.parentElement.tagName === "FIGURE") target.parentElement.classList.toggle("texts", !!found.texts);
  } catch (e) {
    target.replaceChildren(make("p", String(e.message), { className: "bad" }));
  }
}

function faults(list) {
  const ul = $("faults");
  for (const f of list) {
    let li = ul.querySelector(`[data-name="${f.name}"]`);
    if (!li) {
      li = make("li");
      li.dataset.name = f.name;
      const label = make("label"), box = make("input", undefined, { type: "checkbox" });
      box.addEventListener("change", () => ask("/fake/faults", { name: f.name, on: box.checked }).then((a) => faults(a.faults)));
      label.append(box, make("span"));
      li.append(label);
      ul.append(li);
    }
    li.querySelector("input").checked = f.on;
    const span = li.querySelector("span");
    span.textContent = `${f.name}: ${f.text}` + (f.hits ? ` (met ${f.hits} times)` : "");
    span.className = f.on ? "bad" : "";
  }
}

function dashboards(list) {
  const text = JSON.stringify(list);
  if (text === boards) return;
  boards = text;
  $("dashboards").replaceChildren(...list.map((d) => {
    const details = make("details"), charts = make("div", undefined, { className: "charts" });
    details.append(make("summary", d.name), make("p", d.description), charts);
    const fill = () => charts.replaceChildren(...d.charts.map((c) => {
      const f = make("figure"), body = make("div"), source = make("details");
      source.append(make("summary", "APL"), make("pre", c.query.apl));
      const use = make("button", "to the query", { type: "button" });
      use.addEventListener("click", () => { $("apl").value = c.query.apl; $("apl").focus(); });
      source.append(use);
      f.append(make("figcaption", c.name), body, source);
      show(body, c.query.apl, Number($("hours").value));
      return f;
    }));
    const again = make("button", "Ask again", { type: "button" });
    again.addEventListener("click", fill);
    details.insertBefore(again, charts);
    details.addEventListener("toggle", () => { if (details.open && !charts.childElementCount) fill(); });
    return details;
  }));
  if (!list.length) $("dashboards").append(make("p", "none yet: millrace axiom apply makes them"));
}

async function refresh() {
  let s;
  try {
    s = await ask("/fake/state");
  } catch (e) {
    $("summary").textContent = "the fake does not answer";
    return;
  }
  $("summary").textContent = s.datasets.map((d) => `${d.name}: ${d.rows} rows, ${d.fields} of ${d.limit} fields` +
    (d.last ? `, last ${d.last}` : "") + (d.dropped ? `, ${d.dropped} not kept` : "")).join("; ") +
    (s.datasets.length ? "; " : "no dataset; ") + `${s.requests} requests`;
  const kinds = [];
  for (const d of s.datasets) for (const k of d.kinds) {
    const id = d.name + "/" + k.kind, grown = k.rows - (before[id] ?? k.rows);
    before[id] = k.rows;
    const td = make("td"), b = make("button", "newest", { type: "button" });
    b.setAttribute("aria-label", "newest rows of " + (k.kind || "no kind"));
    b.dataset.id = id;
    b.addEventListener("click", () => {
      $("apl").value = `['${d.name}']\n| where kind == '${k.kind}'\n| order by _time desc\n| take 10`;
      show($("answer"), $("apl").value, 0);
      $("answer").scrollIntoView({ block: "nearest" });
    });
    td.append(b);
    kinds.push(row([k.kind || "(none)", make("td", String(k.rows), { className: "n" }),
      make("td", grown ? "+" + grown : "", { className: "n good" }), td]));
  }
  const focused = document.activeElement?.dataset?.id;
  $("kinds").tBodies[0].replaceChildren(...kinds);
  if (focused) document.querySelector(`#kinds button[data-id="${CSS.escape(focused)}"]`)?.focus();
  faults(s.faults);
  $("monitors").tBodies[0].replaceChildren(...s.monitors.map((m) => row([m.name, m.text,
    make("td", m.value === null ? "" : String(Math.round(m.value * 1000) / 1000), { className: "n" }),
    make("td", m.error || (m.fires ? "fires" : "quiet"), { className: m.error || m.fires ? "bad" : "good" })])));
  $("annotations").tBodies[0].replaceChildren(...s.annotations.map((a) => row([momentText(a.time), a.type, a.title])));
  dashboards(s.dashboards);
  if (!$("apl").value && s.datasets.length) {
    $("apl").value = `['${s.datasets[0].name}']\n| summarize rows = count() by bin_auto(_time), kind`;
  }
}

$("query").addEventListener("submit", (e) => {
  e.preventDefault();
  show($("answer"), $("apl").value, Number($("hours").value));
});
$("apl").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) $("query").requestSubmit();
});
refresh();
setInterval(refresh, 2000);
