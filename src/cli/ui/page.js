/* Draws the cluster. Everything that comes from the cluster becomes text or the value of an attribute, never markup. */
"use strict";

const INTERVAL_MS = 2000;    // between the answer to one question and the next question
const WAITING_SHOWN = 200;
const NAME_WIDTH = 270, GPU_WIDTH = 190, GPU_HEIGHT = 52, NARROW = 700;    // as in page.css
const PAGE_ROWS = 10;
const COLOURS = 8;

const $ = (id) => document.getElementById(id);
const template = $("drawing").content.firstElementChild;

const view = {
	nodes: [], shown: [], tops: [0], columns: 1, rows: new Map(),
	colours: new Map(), waiting: [], at: {row: 0, item: 0}, etag: null, opener: null, asking: null, readAt: 0, live: true,
};

function make(tag, attributes = {}, text = null) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	if (text !== null)
		element.textContent = text;
	return element;
}

/* ---- words ---- */

const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;
const amount = (node, units) => node.mode === "topology" ? plural(units, "GPU") : `${units * node.unitMiB / 1024} GiB`;
const fullName = (pod) => `${pod.namespace}/${pod.name}`;
const coreOf = (pod, gpu) => pod.core ?? (pod.claims ?? []).filter((claim) => claim.gpu === gpu.index)
	.reduce((sum, claim) => sum + claim.cores, 0);

function podText(node, gpu, pod) {
	const core = coreOf(pod, gpu);
	return `${pod.unusedClaim ? "ResourceClaim " : ""}${fullName(pod)} ${amount(node, pod.allocated[gpu.index])}`
		+ (core ? ` and ${core} % of the computing power` : "") + (pod.orphan ? " (deleted by force, still runs)" : "")
		+ (pod.sharesClaim ? " (shared with other pods of its claim)" : "");
}

function gpuText(node, gpu) {
	const pods = node.pods.filter((pod) => pod.allocated[gpu.index]);
	return `GPU ${gpu.index} of node ${node.name}: ${amount(node, gpu.allocated)} of ${amount(node, gpu.total)} allocated`
		+ `, ${amount(node, Math.max(0, gpu.total - gpu.allocated))} free`
		+ (gpu.healthy ? "" : `, takes no new pods (${gpu.reason ?? "unhealthy"})`)
		+ (pods.length ? `. ${plural(pods.length, "pod")}: ${pods.map((pod) => podText(node, gpu, pod)).join(", ")}.` : ". No pods.");
}

function stateOfNode(node) {
	const sick = node.gpus.filter((gpu) => !gpu.healthy).length;
	return [`mode ${node.mode}`, ...(node.unschedulable ? ["cordoned"] : []), ...(node.changing ? ["changing"] : []),
		...(sick ? [`${plural(sick, "GPU")} without new pods`] : []),
		...(node.pending ? [`${amount(node, node.pending)} on no known GPU`] : [])];
}

function summaryText(nodes, waiting) {
	const sum = {has: 0, total: 0, gpus: 0, whole: 0, wholeTotal: 0, sick: 0};
	for (const node of nodes) {
		sum.gpus += node.gpus.length;
		for (const gpu of node.gpus)
			sum.sick += gpu.healthy ? 0 : 1;
		if (node.mode === "topology") {
			sum.whole += node.allocated;
			sum.wholeTotal += node.total;
		} else {
			sum.has += node.allocated * node.unitMiB / 1024;
			sum.total += node.total * node.unitMiB / 1024;
		}
	}
	return `${plural(nodes.length, "node")}, ${plural(sum.gpus, "GPU")}. `
		+ (sum.total ? `${sum.has} of ${sum.total} GiB allocated, ${Math.max(0, sum.total - sum.has)} GiB free. ` : "")
		+ (sum.wholeTotal ? `${sum.whole} of ${plural(sum.wholeTotal, "whole GPU")} allocated. ` : "")
		+ (sum.sick ? `${plural(sum.sick, "GPU")} without new pods. ` : "")
		+ (waiting.length ? `${plural(waiting.length, "pod waits", "pods wait")}.` : "No pod waits.");
}

/* ---- one node ---- */

/* A namespace keeps its colour while the page is open. */
function colour(namespace) {
	if (!view.colours.has(namespace))
		view.colours.set(namespace, view.colours.size % COLOURS);
	return view.colours.get(namespace);
}

function addRect(svg, name, x, y, width, height) {
	const rect = template.firstElementChild.cloneNode(false);
	for (const [key, value] of Object.entries({class: name, x, y, width, height}))
		rect.setAttribute(key, value);
	svg.append(rect);
}

/* A button of the grid; `opens` is its pod or node, and `key` finds it again in the row when the cluster has changed. */
function gridButton(row, item, key, opens, attributes, text) {
	const button = make("button", {type: "button", tabindex: "-1", "data-item": item, "data-key": key, ...attributes}, text);
	button.opens = opens;
	button.row = row;
	return button;
}

function drawGpu(node, gpu, row, firstItem) {
	const cell = make("div", {role: "gridcell", class: gpu.healthy && !node.unschedulable ? "gpu" : "gpu stopped"});
	const picture = make("div", {class: "picture"});
	const svg = template.cloneNode(false);
	const total = Math.max(gpu.total, gpu.allocated, 1);
	let at = 0, core = 0, item = firstItem;
	svg.setAttribute("viewBox", `0 0 ${total} 24`);
	svg.setAttribute("aria-label", gpuText(node, gpu));
	picture.append(svg);
	addRect(svg, gpu.healthy ? "free" : "off", 0, 0, total, 19);
	for (const pod of node.pods) {
		const units = pod.allocated[gpu.index];
		if (!units)
			continue;
		const part = pod.sharesClaim ? Math.min(units, Math.max(0, total - at)) : units;
		const power = coreOf(pod, gpu) / 100 * total;
		addRect(svg, `c${colour(pod.namespace)}`, at, 0, part, 19);
		addRect(svg, "core", core, 20.5, power, 3.5);
		const button = gridButton(row, item++, `${gpu.index} ${fullName(pod)}`, {node, pod}, {class: pod.orphan ? "pod orphan" : "pod", title: podText(node, gpu, pod),
			"aria-label": `Pod ${podText(node, gpu, pod)} on GPU ${gpu.index} of node ${node.name}: show why`}, pod.name);
		button.style.left = `${at / total * 100}%`;
		button.style.width = `${part / total * 100}%`;
		picture.append(button);
		at += part;
		core += power;
	}
	const text = `GPU ${gpu.index}: ${amount(node, gpu.allocated)} / ${amount(node, gpu.total)}`;
	cell.append(picture, make("span", {class: gpu.healthy ? "small" : "small bad", "aria-hidden": "true"},
		gpu.healthy ? text : `${text}, ${gpu.reason ?? "unhealthy"}`));
	return [cell, item];
}

function drawNode(node, row) {
	const line = make("div", {role: "row", class: "node", "aria-rowindex": row + 1});
	const name = make("div", {role: "rowheader", class: "name"});
	const gpus = make("div", {class: "gpus", role: "presentation"});
	const state = stateOfNode(node).join(", ");
	let item = 1;
	name.append(gridButton(row, 0, "", {node}, {title: node.name,
		"aria-label": `Node ${node.name}, ${state}, ${amount(node, node.allocated)} of ${amount(node, node.total)} allocated: show its pods`}, node.name),
		make("span", {class: node.unschedulable || node.pending ? "small bad" : "small", title: state}, state));
	gpus.style.gridTemplateColumns = `repeat(${view.columns}, minmax(0, 1fr))`;
	for (const gpu of node.gpus) {
		const [cell, next] = drawGpu(node, gpu, row, item);
		gpus.append(cell);
		item = next;
	}
	line.append(name, gpus);
	return line;
}

/* ---- the rows that can be seen ---- */

function layOut() {
	const width = $("nodes").clientWidth || document.documentElement.clientWidth;
	const narrow = window.innerWidth <= NARROW;
	const columns = Math.max(1, Math.min(8, Math.floor((width - (narrow ? 0 : NAME_WIDTH)) / GPU_WIDTH)));
	const tops = new Array(view.shown.length + 1);
	tops[0] = 0;
	for (let i = 0; i < view.shown.length; i++) {
		const lines = Math.max(1, Math.ceil(view.shown[i].gpus.length / columns));
		tops[i + 1] = tops[i] + lines * GPU_HEIGHT + (narrow ? 60 : 8);
	}
	if (columns !== view.columns)
		forgetRows();
	view.columns = columns;
	view.tops = tops;
	$("nodes").style.height = `${tops[tops.length - 1]}px`;
	$("nodes").setAttribute("aria-rowcount", view.shown.length);
}

function forgetRows() {
	for (const {element} of view.rows.values())
		element.remove();
	view.rows.clear();
}

function rowAt(y) {
	let low = 0, high = view.shown.length - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (view.tops[middle] <= y)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Draws the rows of the window, and the row that has the focus. A row that has not changed keeps its elements. */
function drawRows(focused = hasFocus()) {
	const grid = $("nodes"), above = -grid.getBoundingClientRect().top;
	const first = Math.max(0, rowAt(above - 300)), last = rowAt(above + window.innerHeight + 300);
	const wanted = new Set();
	for (let row = first; row <= last && row < view.shown.length; row++)
		wanted.add(row);
	if (view.at.row < view.shown.length)
		wanted.add(view.at.row);
	for (const [row, drawn] of view.rows)
		if (!wanted.has(row)) {
			drawn.element.remove();
			view.rows.delete(row);
		}
	for (const row of [...wanted].sort((a, b) => a - b)) {
		const node = view.shown[row], drawn = view.rows.get(row);
		if (drawn && (drawn.node === node || drawn.text === JSON.stringify(node)))
			continue;
		const element = drawNode(node, row);
		element.style.top = `${view.tops[row]}px`;
		element.style.height = `${view.tops[row + 1] - view.tops[row]}px`;
		drawn?.element.remove();
		const next = [...grid.children].find((other) => Number(other.getAttribute("aria-rowindex")) > row + 1);
		grid.insertBefore(element, next ?? null);
		view.rows.set(row, {element, node, text: JSON.stringify(node)});
	}
	rove(focused);
}

const hasFocus = () => $("nodes").contains(document.activeElement);
const buttonsOf = (row) => [...view.rows.get(row)?.element.querySelectorAll("button") ?? []];

/* One button of the grid is in the order of the Tab key. */
function rove(focused) {
	const buttons = buttonsOf(view.at.row);
	for (const button of $("nodes").querySelectorAll('button[tabindex="0"]'))
		button.tabIndex = -1;
	if (!buttons.length)
		return;
	const button = buttons[Math.min(view.at.item, buttons.length - 1)];
	button.tabIndex = 0;
	if (focused && document.activeElement !== button)
		button.focus({preventScroll: true});
}

function goTo(row, item) {
	view.at = {row: Math.max(0, Math.min(row, view.shown.length - 1)), item: Math.max(0, item)};
	const top = view.tops[view.at.row] + $("nodes").getBoundingClientRect().top;
	const bottom = top + view.tops[view.at.row + 1] - view.tops[view.at.row];
	const room = window.innerHeight - ($("panel").hidden ? 0 : $("panel").offsetHeight);
	if (top < 0)
		window.scrollBy(0, top - 8);
	else if (bottom > room)
		window.scrollBy(0, bottom - room + 8);
	drawRows(true);
}

function gridKey(event) {
	const {row, item} = view.at, buttons = buttonsOf(row).length || 1;
	const here = Math.min(item, buttons - 1);
	const moves = {
		ArrowDown: [row + 1, here], ArrowUp: [row - 1, here], ArrowRight: [row, Math.min(here + 1, buttons - 1)], ArrowLeft: [row, here - 1],
		PageDown: [row + PAGE_ROWS, here], PageUp: [row - PAGE_ROWS, here],
		Home: event.ctrlKey ? [0, 0] : [row, 0], End: event.ctrlKey ? [view.shown.length - 1, 0] : [row, buttons - 1],
	};
	if (!moves[event.key] || event.altKey || event.metaKey)
		return;
	event.preventDefault();
	goTo(...moves[event.key]);
}

/* ---- pods that wait ---- */

function waitingText(pod) {
	return pod.whole ? plural(pod.units, "whole GPU")
		: `${pod.units} ${pod.units === 1 ? "unit" : "units"}` + (pod.gpus > 1 ? ` on ${pod.gpus} GPUs` : "") + (pod.core ? ` and ${pod.core} %` : "");
}

function drawWaiting(words) {
	const list = $("waiting-list"), pods = view.waiting.filter((pod) => matches(words, fullName(pod)));
	const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("data-pod") : null;
	const text = JSON.stringify(pods.slice(0, WAITING_SHOWN));
	$("waiting").hidden = view.waiting.length === 0;
	$("waiting-more").hidden = pods.length <= WAITING_SHOWN;
	$("waiting-more").textContent = `${pods.length - WAITING_SHOWN} more; the filter finds them.`;
	if (list.drawn === text)
		return;
	list.drawn = text;
	list.replaceChildren(...pods.slice(0, WAITING_SHOWN).map((pod, i) => {
		const item = make("div", {role: "listitem"});
		const button = make("button", {type: "button", tabindex: i ? "-1" : "0", "data-pod": fullName(pod),
			"aria-label": `Pod ${fullName(pod)} waits for ${waitingText(pod)}: show why`}, `${fullName(pod)}: ${waitingText(pod)}`);
		button.opens = {pod};
		item.append(button);
		return item;
	}));
	if (focused !== null)
		[...list.querySelectorAll("button")].find((button) => button.getAttribute("data-pod") === focused)?.focus();
}

function waitingKey(event) {
	const buttons = [...$("waiting-list").querySelectorAll("button")], at = buttons.indexOf(document.activeElement);
	const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1}[event.key];
	if (to === undefined || at < 0 || event.altKey || event.metaKey)
		return;
	event.preventDefault();
	const next = buttons[Math.max(0, Math.min(to, buttons.length - 1))];
	buttons[at].tabIndex = -1;
	next.tabIndex = 0;
	next.focus();
}

/* ---- the panel ---- */

function nodeText(node) {
	return [`${stateOfNode(node).join(", ")}`, `address ${node.address}`, "",
		...node.gpus.flatMap((gpu) => [gpuText(node, gpu), ...(gpu.model || gpu.uuid ? [`  ${gpu.model} ${gpu.uuid}`] : [])]),
		...node.pods.filter((pod) => pod.pending).map((pod) => `${fullName(pod)}: ${amount(node, pod.pending)} on no known GPU`)].join("\n");
}

function openPanel(opens, opener) {
	view.opener = opener;
	view.opens = opens;
	$("panel").hidden = false;
	$("panel-title").textContent = opens.pod ? `Why ${fullName(opens.pod)}` : `Node ${opens.node.name}`;
	$("panel-again").hidden = !opens.pod || !view.live;
	$("panel-state").textContent = "";
	$("panel-text").textContent = opens.pod ? "" : nodeText(opens.node);
	$("panel-title").focus();
	if (opens.pod)
		askWhy(opens);
}

async function askWhy({node, pod}) {
	view.asking?.abort();
	if (!view.live || pod.unusedClaim || pod.orphan) {
		$("panel-text").textContent = (node ? node.gpus.filter((gpu) => pod.allocated[gpu.index]).map((gpu) => gpuText(node, gpu)).join("\n") + "\n" : "")
			+ (pod.unusedClaim || pod.orphan ? "The API server has no such pod." : `ration why -n ${pod.namespace} ${pod.name}\nexplains it while the pod exists.`);
		return;
	}
	const asking = view.asking = new AbortController();
	$("panel-state").textContent = "The scheduler is being asked.";
	try {
		const answer = await fetch(`why?pod=${pod.namespace}/${pod.name}`, {signal: asking.signal, cache: "no-store"});
		const body = await answer.json();
		$("panel-state").textContent = answer.ok ? "" : "There is no answer.";
		$("panel-text").textContent = body.text ?? body.error;
	} catch (error) {
		if (asking.signal.aborted)
			return;
		$("panel-state").textContent = "`ration ui` does not answer: does it still run?";
	}
}

function closePanel() {
	view.asking?.abort();
	$("panel").hidden = true;
	const opener = view.opener, waits = opener?.getAttribute("data-pod");
	const again = opener?.isConnected ? opener : [...$("waiting-list").querySelectorAll("button")].find((button) => button.getAttribute("data-pod") === waits);
	view.opener = null;
	if (again)
		again.focus();
	else
		goTo(view.at.row, view.at.item);
}

function clicked(event) {
	const button = event.target.closest("button");
	if (!button?.opens)
		return;
	if (button.row !== undefined) {
		view.at = {row: button.row, item: Number(button.getAttribute("data-item"))};
		rove(false);
	}
	openPanel(button.opens, button);
}

/* ---- the data ---- */

const wordsOf = () => $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
const matches = (words, text) => words.every((word) => text.includes(word));

function select() {
	const words = wordsOf(), name = view.shown[view.at.row]?.name, focused = hasFocus();
	const key = buttonsOf(view.at.row)[view.at.item]?.getAttribute("data-key");
	view.shown = words.length ? view.nodes.filter((node) => matches(words, node.name) || node.pods.some((pod) => matches(words, fullName(pod)))) : view.nodes;
	$("found").textContent = words.length ? `${plural(view.shown.length, "node")} found` : "";
	$("nothing").hidden = view.shown.length > 0;
	$("nothing").textContent = view.nodes.length ? "No node and no pod on a node has this in its name."
		: "No node gives GPUs of ration: label a GPU node ack.node.gpu.schedule=share, and see that the agent runs there.";
	const row = view.shown[view.at.row]?.name === name ? view.at.row : view.shown.findIndex((node) => node.name === name);
	view.at = row >= 0 ? {...view.at, row} : {row: 0, item: 0};
	drawWaiting(words);
	layOut();
	for (const [at, drawn] of view.rows)
		if (at >= view.shown.length || drawn.element.style.top !== `${view.tops[at]}px` || view.shown[at].name !== drawn.node.name) {
			drawn.element.remove();
			view.rows.delete(at);
		}
	drawRows(focused);
	const item = buttonsOf(view.at.row).findIndex((button) => button.getAttribute("data-key") === key);
	if (row >= 0 && item >= 0)
		view.at.item = item;
	rove(focused);
}

function show(data) {
	view.nodes = data.cluster.nodes;
	view.waiting = data.waiting;
	$("summary").textContent = summaryText(view.nodes, view.waiting);
	$("notes").hidden = data.warnings.length === 0;
	$("note-list").replaceChildren(...data.warnings.map((text) => make("li", {}, text)));
	select();
}

/* Measured until the next frame is drawn; tests read it. */
function measure(name, start) {
	requestAnimationFrame(() => setTimeout(() => {
		performance.clearMeasures(name);
		performance.measure(name, {start, end: performance.now()});
	}));
}

function problem(text) {
	$("problem").hidden = !text;
	$("problem").textContent = text ?? "";
}

async function update() {
	const answer = await fetch("data", {cache: "no-store", headers: view.etag ? {"If-None-Match": view.etag} : {}});
	const start = performance.now(), first = view.etag === null;
	if (answer.status === 200) {
		const data = await answer.json();
		view.etag = answer.headers.get("ETag");
		show(data);
		measure(first ? "first-picture" : "update", first ? 0 : start);
	} else if (answer.status !== 304) {
		problem(answer.status === 502 ? (await answer.json()).error : `\`ration ui\` answers with status ${answer.status}.`);
		return;
	}
	view.readAt = Date.now() - 1000 * Number(answer.headers.get("Age"));
	$("state").textContent = `As of ${new Date(view.readAt).toLocaleTimeString()}.`;
	problem(null);
}

async function follow() {
	for (;;) {
		try {
			await update();
		} catch (error) {
			problem("`ration ui` does not answer: does it still run?");
		}
		await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
		while (document.hidden)
			await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, {once: true}));
	}
}

function begin() {
	let drawing = false;
	const soon = (action) => () => {
		if (!drawing)
			requestAnimationFrame(() => { drawing = false; action(); });
		drawing = true;
	};
	window.addEventListener("scroll", soon(drawRows), {passive: true});
	window.addEventListener("resize", soon(() => { layOut(); forgetRows(); drawRows(); }));
	$("filter").addEventListener("input", select);
	$("nodes").addEventListener("keydown", gridKey);
	$("nodes").addEventListener("click", clicked);
	$("waiting-list").addEventListener("keydown", waitingKey);
	$("waiting-list").addEventListener("click", clicked);
	$("panel-close").addEventListener("click", closePanel);
	$("panel-again").addEventListener("click", () => askWhy(view.opens));
	document.addEventListener("keydown", (event) => {
		if (event.key === "Escape" && !$("panel").hidden)
			closePanel();
	});
	const written = $("data");
	if (!written)
		return follow();
	view.live = false;
	const data = JSON.parse(written.textContent);
	show(data);
	$("state").textContent = `Written by ration ${data.version} at ${data.at}.`;
	measure("first-picture", 0);
}

begin();
