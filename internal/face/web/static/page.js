"use strict";
// The page is whole without this: it says times in the reader's zone, takes in what has changed, and zooms by dragging.
const two = (n) => String(n).padStart(2, "0");
const clock = (t) => `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
const sameDay = (a, b) => a.toDateString() === b.toDateString();
function localTimes(root) {
	for (const e of root.querySelectorAll("time[datetime]")) {
		const t = new Date(e.dateTime);
		const day = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} `;
		e.textContent = (sameDay(t, new Date()) ? "" : day) + clock(t);
	}
	for (const e of root.querySelectorAll("text[data-time]")) {
		const t = new Date(e.dataset.time);
		const text = e.textContent;
		if (/^\d\d:\d\d:\d\d$/.test(text)) e.textContent = clock(t);
		else if (/^\d\d:\d\d$/.test(text)) e.textContent = clock(t).slice(0, 5);
		else e.textContent = `${two(t.getMonth() + 1)}-${two(t.getDate())} ${clock(t).slice(0, 5)}`;
	}
}
// What only works with this script is shown by it.
function shownBy(root) {
	localTimes(root);
	for (const b of root.querySelectorAll("button[data-copy]")) b.hidden = false;
}
const busy = () => document.querySelector(".select-zoom") || String(window.getSelection() || "") !== "";
let seen = "", heard = Date.now(), back = heard, why = "it does not answer";
const shown = new Map(); // what each part of the page was last made of
async function refresh() {
	if (document.hidden) return;
	const answer = await fetch(location.href, { headers: seen ? { "If-None-Match": seen } : {}, cache: "no-store",
		signal: AbortSignal.timeout(10000) });
	if (answer.status !== 200 && answer.status !== 304) throw new Error(`it answers with ${answer.status}`);
	heard = Date.now();
	if (answer.status === 304 || busy()) return;
	seen = answer.headers.get("ETag") || "";
	const next = new DOMParser().parseFromString(await answer.text(), "text/html");
	for (const part of document.querySelectorAll("[data-part]")) {
		const fresh = next.getElementById(part.id);
		if (!fresh || part.contains(document.activeElement)) continue;
		const made = fresh.innerHTML;
		if (shown.get(part.id) === made) continue;
		shown.set(part.id, made);
		const open = [...part.querySelectorAll("details[open]")].map((d) => d.id);
		part.replaceChildren(...fresh.childNodes);
		for (const id of open) { const d = id && document.getElementById(id); if (d) d.open = true; }
		shownBy(part);
	}
}
function follow() { // a server that is away for a moment is asked again
	setTimeout(() => refresh().catch((e) => { why = /^it /.test(e.message) ? e.message : "it does not answer"; })
		.finally(follow), 2000);
}
function liveness() { // what is shown says how old it is when nothing comes any more
	const away = document.getElementById("away"), late = !document.hidden && Date.now() - Math.max(heard, back) > 4500;
	const text = late ? `No news from the server since ${clock(new Date(heard))}: ${why}. What is shown is from then.` : "";
	if (away.textContent === text) return;
	away.textContent = text;
	away.hidden = !late;
	document.body.classList.toggle("late", late);
	const live = document.getElementById("live");
	live.textContent = late ? "not live" : "live";
	live.className = late ? "bad" : "good";
}
// One line through all charts shows the same moment in each of them, and what is pointed at says its values at once.
const tips = new WeakMap();
function pointing() {
	const box = document.createElement("div");
	box.id = "tip";
	box.hidden = true;
	box.setAttribute("aria-hidden", "true"); // each chart has its table
	document.body.append(box);
	const tipOf = (e) => {
		const title = e.querySelector(":scope > title");
		if (title) { tips.set(e, title.textContent); title.remove(); } // else the browser says it a second time
		return tips.get(e) || "";
	};
	const cross = (share) => {
		for (const svg of document.querySelectorAll("svg.panel")) {
			let line = svg.querySelector(":scope > .cross");
			if (share === null) { line?.remove(); continue; }
			if (!line) {
				line = document.createElementNS("http://www.w3.org/2000/svg", "line");
				line.setAttribute("class", "cross");
				line.setAttribute("y1", "14");
				line.setAttribute("y2", svg.getAttribute("height") - 20);
				svg.append(line);
			}
			for (const end of ["x1", "x2"]) line.setAttribute(end, `${100 * share}%`);
		}
	};
	document.addEventListener("pointermove", (e) => {
		const svg = e.target.closest?.("svg.panel, svg.strip");
		if (!svg) { if (!box.hidden) { box.hidden = true; cross(null); } return; }
		if (svg.classList.contains("panel")) {
			const at = svg.getBoundingClientRect();
			cross(Math.min(1, Math.max(0, (e.clientX - at.left) / at.width)));
		}
		const text = tipOf(e.target);
		box.hidden = !text;
		if (!text) return;
		if (box.textContent !== text) box.textContent = text;
		const right = e.clientX + 16 + box.offsetWidth < innerWidth;
		box.style.left = `${Math.max(4, right ? e.clientX + 16 : e.clientX - 16 - box.offsetWidth)}px`;
		box.style.top = `${Math.min(e.clientY + 12, innerHeight - box.offsetHeight - 4)}px`;
	});
}
function zoomable() {
	let from = null;
	const at = (svg, x) => {
		const box = svg.getBoundingClientRect(), share = Math.min(1, Math.max(0, (x - box.left) / box.width));
		return { share, value: +svg.dataset.from + share * (svg.dataset.to - svg.dataset.from) };
	};
	document.addEventListener("pointerdown", (e) => {
		const svg = e.target.closest("svg.panel");
		if (!svg || e.button !== 0 || e.pointerType === "touch") return;
		const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
		mark.setAttribute("class", "select-zoom");
		mark.setAttribute("height", "100%");
		svg.append(mark);
		from = { svg, mark, start: at(svg, e.clientX) };
		e.preventDefault();
	});
	document.addEventListener("pointermove", (e) => {
		if (!from) return;
		const now = at(from.svg, e.clientX), low = Math.min(now.share, from.start.share);
		from.mark.setAttribute("x", `${100 * low}%`);
		from.mark.setAttribute("width", `${100 * Math.abs(now.share - from.start.share)}%`);
	});
	document.addEventListener("pointerup", (e) => {
		if (!from) return;
		const { svg, mark, start } = from, end = at(svg, e.clientX);
		from = null;
		mark.remove();
		if (Math.abs(end.share - start.share) < 0.01) return;
		const url = new URL(location.href);
		url.searchParams.set("from", new Date(1000 * Math.min(start.value, end.value)).toISOString());
		url.searchParams.set("to", new Date(1000 * Math.max(start.value, end.value)).toISOString());
		location.assign(url);
	});
}
document.addEventListener("click", async (e) => {
	const button = e.target.closest("button[data-copy]");
	if (!button) return;
	try {
		await navigator.clipboard.writeText(button.dataset.copy);
		button.textContent = "copied";
	} catch { // a browser allows it on https and on this machine alone
		getSelection().selectAllChildren(button.previousElementSibling);
		button.textContent = "selected";
	}
});
for (const part of document.querySelectorAll("[data-part]")) shown.set(part.id, part.innerHTML);
shownBy(document);
pointing();
zoomable();
if ("live" in document.body.dataset) {
	document.addEventListener("visibilitychange", () => { back = Date.now(); });
	follow();
	setInterval(liveness, 500);
}
