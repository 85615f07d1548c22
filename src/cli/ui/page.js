/* Draws the cluster. Everything that comes from the cluster becomes text or the value of an attribute, never markup. */
"use strict";

const INTERVAL_MS = 2000;    // between the answer to one question and the next question
const WAITING_SHOWN = 200;
const NAME_WIDTH = 270, GPU_WIDTH = 190, GPU_HEIGHT = 52, NARROW = 700;    // as in page.css
const PAGE_ROWS = 10;
const MOMENT_WAIT_MS = 150;    // while the slider moves
const COLOURS = 8;
const MEASURED_MAX = 32, MEASURED_CHARS = 6000;    // nodes in one question, as the server has it
const USE_KEPT_MS = 300000, USES_KEPT = 20000;      // how long, and of how many pods, the use is kept

const $ = (id) => document.getElementById(id);
const template = $("drawing").content.firstElementChild;

const view = {
	nodes: [], shown: [], tops: [0], columns: 1, rows: new Map(),
	colours: new Map(), waiting: [], at: {row: 0, item: 0}, etag: null, opener: null, asking: null, readAt: 0, live: true, runs: false,
	use: new Map(), past: new Map(), asked: [], moment: null, history: null, asksMoment: null,
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
const amount = (node, units) => node.mode === "topology" ? plural(units, "GPU")
	: units * node.unitMiB % 128 ? `${units * node.unitMiB} MiB` : `${units * node.unitMiB / 1024} GiB`;
const fullName = (pod) => pod.pid ? `${pod.name} (process ${pod.pid})` : `${pod.namespace}/${pod.name}`;
const bytesText = (bytes) => bytes < 2 ** 30 ? `${Math.round(bytes / 2 ** 20)} MiB` : `${Math.round(bytes / 2 ** 30 * 10) / 10} GiB`;
const percent = (part) => `${Math.round(part * 100)} %`;
const coreOf = (pod, gpu) => pod.core ?? (pod.claims ?? []).filter((claim) => claim.gpu === gpu.index)
	.reduce((sum, claim) => sum + claim.cores, 0);

/* An isolated pod can have a little more than its limit: what the driver takes. */
const isOver = (use) => use.limit > 0 && use.used > use.limit * 1.02 + 2 ** 25;

function useText(use) {
	const parts = [...(use.used === null ? [] : [bytesText(use.used) + (isOver(use) ? " (more than it was granted)" : "")]), ...(use.core === null ? [] : [`${percent(use.core)} of the computing power`])];
	return parts.length ? `, uses ${parts.join(" and ")}` : "";
}

function podText(node, gpu, pod) {
	const core = coreOf(pod, gpu), use = useOf(node, gpu, pod);
	return `${pod.unusedClaim ? "ResourceClaim " : ""}${fullName(pod)} ${amount(node, pod.allocated[gpu.index])}`
		+ (core ? ` and ${core} % of the computing power` : "") + (pod.orphan ? " (deleted by force, still runs)" : "")
		+ (pod.sharesClaim ? " (shared with other pods of its claim)" : "") + (use ? useText(use) : "");
}

function gpuText(node, gpu) {
	const pods = node.pods.filter((pod) => pod.allocated[gpu.index]), used = cardOf(node, gpu)?.usedBytes;
	const free = Math.max(0, gpu.total - gpu.allocated);
	return `GPU ${gpu.index} of node ${node.name}: ${amount(node, gpu.allocated)} of ${amount(node, gpu.total)} allocated`
		+ `, ${amount(node, free)} free` + (gpu.stranded ? `, ${gpu.stranded >= free ? "all" : amount(node, gpu.stranded)} of it stranded` : "")
		+ (used === undefined ? "" : `, ${bytesText(used)} used`)
		+ (gpu.healthy ? "" : `, takes no new pods (${gpu.reason ?? "unhealthy"})`)
		+ (pods.length ? `. ${plural(pods.length, view.runs ? "program" : "pod")}: ${pods.map((pod) => podText(node, gpu, pod)).join(", ")}.`
			: view.runs ? ". No programs." : ". No pods.");
}

const strandedOn = (node) => node.gpus.reduce((sum, gpu) => sum + (gpu.stranded ?? 0), 0);

function stateOfNode(node) {
	const sick = node.gpus.filter((gpu) => !gpu.healthy).length;
	return [...(view.runs ? [plural(node.pods.length, "program")] : [`mode ${node.mode}`]), ...(node.unschedulable ? ["cordoned"] : []), ...(node.changing ? ["changing"] : []),
		...(sick ? [`${plural(sick, "GPU")} without new pods`] : []),
		...(node.pending ? [`${amount(node, node.pending)} on no known GPU`] : []),
		...(strandedOn(node) ? [`${amount(node, strandedOn(node))} stranded`] : []),
		...(view.use.get(node.name)?.error ? ["its use is unknown"] : [])];
}

function summaryText(nodes, waiting) {
	const sum = {has: 0, total: 0, gpus: 0, whole: 0, wholeTotal: 0, sick: 0, stranded: 0, wholeStranded: 0};
	for (const node of nodes) {
		sum.gpus += node.gpus.length;
		for (const gpu of node.gpus)
			sum.sick += gpu.healthy ? 0 : 1;
		if (node.mode === "topology") {
			sum.whole += node.allocated;
			sum.wholeTotal += node.total;
			sum.wholeStranded += strandedOn(node);
		} else {
			sum.has += node.allocated * node.unitMiB / 1024;
			sum.total += node.total * node.unitMiB / 1024;
			sum.stranded += strandedOn(node) * node.unitMiB / 1024;
		}
	}
	if (view.runs)
		return `${plural(sum.gpus, "GPU")}, ${plural(nodes.flatMap((node) => node.pods).length, "program")}. ${Math.round(sum.has * 10) / 10} of `
			+ `${Math.round(sum.total * 10) / 10} GiB allocated.`;
	return `${plural(nodes.length, "node")}, ${plural(sum.gpus, "GPU")}. `
		+ (sum.total ? `${sum.has} of ${sum.total} GiB allocated, ${Math.max(0, sum.total - sum.has)} GiB free${
			sum.stranded ? `, ${sum.stranded} GiB of it stranded` : ""}. ` : "")
		+ (sum.wholeTotal ? `${sum.whole} of ${plural(sum.wholeTotal, "whole GPU")} allocated${
			sum.wholeStranded ? `, ${sum.wholeStranded} of the free ones stranded` : ""}. ` : "")
		+ (sum.sick ? `${plural(sum.sick, "GPU")} without new pods. ` : "")
		+ (waiting.length ? `${plural(waiting.length, "pod waits", "pods wait")}.` : "No pod waits.");
}

/* ---- what is used now ---- */

const isMeasured = (node) => ["share", "cgpu", "core_mem", "dra", "runs"].includes(node.mode);
const cardOf = (node, gpu) => view.use.get(node.name)?.cards?.find((card) => gpu.uuid ? card.uuid === gpu.uuid : card.index === gpu.index);

function holds(holder, pod) {
	if (pod.pid)
		return holder.pid === pod.pid;
	if (holder.namespace !== pod.namespace)
		return false;
	return pod.unusedClaim ? holder.claim === pod.name : holder.claim ? holder.pods.includes(pod.name) : holder.pod === pod.name;
}

/* What the containers of the pod have and use of this GPU; null: unknown. Unknown parts are null. Without isolation nothing limits a pod: what its
 * units are of the GPU counts. */
function useOf(node, gpu, pod) {
	const card = cardOf(node, gpu);
	const holders = (card?.holders ?? []).filter((holder) => holds(holder, pod));
	const sum = (key) => holders.some((holder) => holder[key] !== undefined) ? holders.reduce((all, holder) => all + (holder[key] ?? 0), 0) : null;
	const limit = node.mode === "share" ? card?.memoryBytes * pod.allocated[gpu.index] / widthOf(gpu) : sum("limitBytes");
	return holders.length ? {limit, used: sum("usedBytes"), share: sum("coreShare"), core: sum("coreUsed"), waited: sum("coreWaited")} : null;
}

/* Over all its GPUs. */
function useOfPod(node, pod) {
	const parts = node.gpus.filter((gpu) => pod.allocated[gpu.index]).map((gpu) => useOf(node, gpu, pod)).filter(Boolean);
	const sum = (key) => parts.some((part) => part[key] !== null) ? parts.reduce((all, part) => all + (part[key] ?? 0), 0) : null;
	return parts.length ? {limit: sum("limit"), used: sum("used"), share: sum("share"), core: sum("core"), waited: sum("waited")} : null;
}

/* The nodes to ask about: all, or those in the window if there are more than the server reads at once. */
function nodesToMeasure() {
	const all = view.moment === null ? view.nodes.filter(isMeasured) : [];
	const drawn = all.length <= MEASURED_MAX ? all : [...view.rows.values()].map(({node}) => node).filter(isMeasured);
	const names = [...new Set([...(view.opens?.node && isMeasured(view.opens.node) ? [view.opens.node.name] : []), ...drawn.map((node) => node.name)])];
	if (names.every((name) => view.asked.includes(name)) && all.length > MEASURED_MAX)
		return view.asked;
	while (names.length > MEASURED_MAX || names.join(",").length > MEASURED_CHARS)
		names.pop();
	return names.sort();
}

function keepUse(now) {
	for (const [key, list] of view.past) {
		while (list.length && list[0].at < now - USE_KEPT_MS)
			list.shift();
		if (!list.length)
			view.past.delete(key);
	}
	for (const node of view.nodes.filter(({name}) => view.use.get(name)?.fresh))
		for (const pod of node.pods) {
			const key = `${node.name} ${fullName(pod)}`, use = useOfPod(node, pod);
			if (use && (view.past.has(key) || view.past.size < USES_KEPT))
				view.past.set(key, [...view.past.get(key) ?? [], {at: now, ...use}]);
		}
}

function takeUse(body) {
	if (view.moment !== null)
		return;
	const now = Date.now(), before = view.use;
	view.use = new Map(Object.entries(body.nodes).map(([name, {age, use}]) => {
		const measured = Math.round((now - 1000 * age) / 500);
		return [name, {...use, measured, fresh: measured !== before.get(name)?.measured}];
	}));
	keepUse(now);
	const failed = [...view.use].filter(([, use]) => use.error);
	const text = body.error ? `What is used is unknown: ${body.error}.` : failed.length ? `What is used is unknown for ${plural(failed.length, "node")}: `
		+ failed.slice(0, 3).map(([name, use]) => `${name}: ${use.error}`).join("; ") + (failed.length > 3 ? "; ..." : ".") : "";
	$("use-problem").hidden = !text;
	if ($("use-problem").textContent !== text)
		$("use-problem").textContent = text;
	for (const {element, node} of view.rows.values())
		drawUse(element, node);
	drawPast();
}

/* Draws the bars of a row again, and says what they show. Its buttons stay, so that a click on one is not lost. */
function drawUse(element, node) {
	const cells = element.querySelectorAll(".gpu");
	node.gpus.forEach((gpu, i) => {
		drawBar(cells[i].querySelector("svg"), node, gpu);
		for (const button of cells[i].querySelectorAll("button"))
			describePod(button, node, gpu, button.opens.pod);
	});
	describeNode(element.querySelector(".name"), node);
}

/* The use of the pod in the panel, as a picture and as a sentence. */
function drawPast() {
	const {node, pod} = view.opens ?? {}, list = node && pod ? view.past.get(`${node.name} ${fullName(pod)}`) : null;
	$("panel-use").hidden = !list;
	if (!list)
		return;
	const last = list[list.length - 1], values = (key) => list.map((use) => use[key]).filter((value) => value !== null);
	const most = (key) => Math.max(...values(key)), mean = (key) => values(key).reduce((a, b) => a + b, 0) / values(key).length;
	const minutes = Math.ceil((last.at - list[0].at) / 60000) || 1;
	const text = `The last ${plural(minutes, "minute")}: ` + (last.used === null ? "" : `memory ${bytesText(last.used)} now, at most ${bytesText(most("used"))}, of ${
		bytesText(last.limit)} granted. `) + (last.core === null ? "" : `Computing power ${percent(last.core)} now, ${percent(mean("core"))} on average, at most ${
		percent(most("core"))}, of ${percent(last.share)} granted. `) + (last.waited === null ? "" : `Its threads waited ${percent(last.waited)} of the time.`);
	const line = (id, part) => $(id).setAttribute("points", list.map((use) => [300 - (last.at - use.at) / USE_KEPT_MS * 300, part(use)])
		.filter(([, value]) => Number.isFinite(value)).map(([x, value]) => `${x.toFixed(1)},${(49 - 48 * Math.min(1, value)).toFixed(1)}`).join(" "));
	line("past-memory", (use) => use.used === null ? NaN : use.used / use.limit);
	line("past-core", (use) => use.core === null ? NaN : use.core / use.share);
	$("panel-past").textContent = text;
	$("panel-chart").setAttribute("aria-label", `What the pod used of what it is granted. ${text}`);
}

async function followUse() {
	for (;; await pause()) {
		view.asked = nodesToMeasure();
		if (!view.asked.length)
			continue;
		try {
			const answer = await fetch(view.runs ? "use" : `use?nodes=${view.asked.join(",")}`, {cache: "no-store"});
			if (answer.ok)
				takeUse(await answer.json());
		} catch (error) {
			// update() says it.
		}
	}
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

const widthOf = (gpu) => Math.max(gpu.total, gpu.allocated, 1);

/* The pods on a GPU, with the place of each in the bar. */
function partsOf(node, gpu) {
	let at = 0, core = 0;
	return node.pods.filter((pod) => pod.allocated[gpu.index]).map((pod) => {
		const units = pod.allocated[gpu.index], use = useOf(node, gpu, pod), total = widthOf(gpu);
		const width = pod.sharesClaim ? Math.min(units, Math.max(0, total - at)) : units;
		const power = (coreOf(pod, gpu) / 100 || use?.share || 0) * total;
		const part = {pod, use, at, width, core, power};
		at += width;
		core += power;
		return part;
	});
}

function drawBar(svg, node, gpu) {
	const total = widthOf(gpu), parts = partsOf(node, gpu);
	svg.setAttribute("aria-label", gpuText(node, gpu));
	svg.replaceChildren();
	addRect(svg, gpu.healthy ? "free" : "off", 0, 0, total, 19);
	if (gpu.stranded && gpu.healthy)
		addRect(svg, "stranded", total - gpu.stranded, 0, gpu.stranded, 19);
	for (const {pod, use, at, width, core, power} of parts) {
		addRect(svg, `c${colour(pod.pid ?? pod.namespace)}`, at, 0, width, 19);
		if (use?.used)
			addRect(svg, isOver(use) ? "used over" : "used", at, 16, width * Math.min(1, use.used / use.limit), 3);
		addRect(svg, "core", core, 20.5, power, 3.5);
		if (use?.core)
			addRect(svg, "core-used", core, 20.5, Math.min(power, use.core * total), 3.5);
	}
}

function describePod(button, node, gpu, pod) {
	const text = podText(node, gpu, pod);
	button.setAttribute("title", text);
	button.setAttribute("aria-label", pod.pid ? `Program ${text} on GPU ${gpu.index}: show its use`
		: `Pod ${text} on GPU ${gpu.index} of node ${node.name}: show why`);
}

function drawGpu(node, gpu, row, firstItem) {
	const cell = make("div", {role: "gridcell", class: gpu.healthy && !node.unschedulable ? "gpu" : "gpu stopped"});
	const picture = make("div", {class: "picture"});
	const svg = template.cloneNode(false);
	const total = widthOf(gpu);
	let item = firstItem;
	svg.setAttribute("viewBox", `0 0 ${total} 24`);
	drawBar(svg, node, gpu);
	picture.append(svg);
	for (const {pod, at, width} of partsOf(node, gpu)) {
		const button = gridButton(row, item++, `${gpu.index} ${fullName(pod)}`, {node, pod}, {class: pod.orphan ? "pod orphan" : "pod"}, pod.name);
		describePod(button, node, gpu, pod);
		button.style.left = `${at / total * 100}%`;
		button.style.width = `${width / total * 100}%`;
		picture.append(button);
	}
	const text = `GPU ${gpu.index}: ${amount(node, gpu.allocated)} / ${amount(node, gpu.total)}`;
	cell.append(picture, make("span", {class: gpu.healthy ? "small" : "small bad", "aria-hidden": "true"},
		gpu.healthy ? text : `${text}, ${gpu.reason ?? "unhealthy"}`));
	return [cell, item];
}

/* The name of the node and its state. */
function describeNode(name, node) {
	const state = stateOfNode(node).join(", "), [button, text] = name.children, error = view.use.get(node.name)?.error;
	button.setAttribute("aria-label", `Node ${node.name}, ${state}, ${amount(node, node.allocated)} of ${amount(node, node.total)} allocated: show its ${
		view.runs ? "programs" : "pods"}`);
	text.setAttribute("class", node.unschedulable || node.pending || error ? "small bad" : "small");
	text.setAttribute("title", error ? `${state}: ${error}` : state);
	if (text.textContent !== state)
		text.textContent = state;
}

function drawNode(node, row) {
	const line = make("div", {role: "row", class: "node", "aria-rowindex": row + 1});
	const name = make("div", {role: "rowheader", class: "name"});
	const gpus = make("div", {class: "gpus", role: "presentation"});
	let item = 1;
	name.append(gridButton(row, 0, "", {node}, {title: node.name}, node.name), make("span"));
	describeNode(name, node);
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
	const most = view.shown.reduce((all, node) => Math.max(all, node.gpus.length), 0);
	const columns = Math.max(1, Math.min(8, most, Math.floor((width - (narrow ? 0 : NAME_WIDTH)) / GPU_WIDTH)));
	const tops = new Array(view.shown.length + 1);
	tops[0] = 0;
	for (let i = 0; i < view.shown.length; i++) {
		const lines = Math.max(1, Math.ceil(view.shown[i].gpus.length / columns));
		tops[i + 1] = tops[i] + lines * GPU_HEIGHT + (narrow ? 78 : 12);
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
	if (pod.claims)
		return (pod.memoryBytes ? bytesText(pod.memoryBytes) + (pod.gpus > 1 ? ` on each of ${pod.gpus} GPUs` : "") : plural(pod.gpus, "whole GPU"))
			+ (pod.core ? ` and ${pod.core} % of the computing power` : "") + ` by ResourceClaim ${pod.claims}`;
	return pod.whole ? plural(pod.units, "whole GPU")
		: `${pod.units} ${pod.units === 1 ? "unit" : "units"}` + (pod.gpus > 1 ? ` on ${pod.gpus} GPUs` : "") + (pod.core ? ` and ${pod.core} % of the computing power` : "");
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
	$("panel-title").textContent = !opens.pod ? `Node ${opens.node.name}` : opens.pod.pid ? fullName(opens.pod)
		: view.moment !== null && opens.node ? `Pod ${fullName(opens.pod)}` : `Why ${fullName(opens.pod)}`;
	$("panel-again").hidden = !opens.pod || !view.live || view.runs || view.moment !== null;
	$("panel-state").textContent = "";
	$("panel-text").textContent = opens.pod ? "" : nodeText(opens.node);
	drawPast();
	$("panel-title").focus();
	if (opens.pod)
		askWhy(opens);
}

async function askWhy({node, pod}) {
	view.asking?.abort();
	if (pod.pid) {
		$("panel-text").textContent = node.gpus.filter((gpu) => pod.allocated[gpu.index]).map((gpu) => podText(node, gpu, pod) + ` on GPU ${gpu.index}`).join("\n");
		return;
	}
	if (view.moment !== null) {
		$("panel-text").textContent = pod.why ? "At that moment, of the nodes:\n" + pod.why.map(([reason, nodes]) => `${String(nodes).padStart(6)}  ${reason}`).join("\n")
			: node ? node.gpus.filter((gpu) => pod.allocated[gpu.index]).map((gpu) => gpuText(node, gpu)).join("\n")
				: "The page tells the reasons of the first 200 pods that waited.";
		return;
	}
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
	view.opens = null;
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
const matches = (words, text) => words.every((word) => text.toLowerCase().includes(word));

function select() {
	const words = wordsOf(), name = view.shown[view.at.row]?.name, focused = hasFocus();
	const key = buttonsOf(view.at.row)[view.at.item]?.getAttribute("data-key");
	view.shown = words.length ? view.nodes.filter((node) => matches(words, node.name) || node.pods.some((pod) => matches(words, fullName(pod)))) : view.nodes;
	$("found").textContent = words.length ? `${plural(view.shown.length, "node")} found` : "";
	$("nothing").hidden = view.shown.length > 0;
	$("nothing").textContent = view.nodes.length ? "No node and no pod on a node has this in its name."
		: view.runs ? "No program runs under a grant of `ration run`."
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
	data.stranded?.forEach((units, i) => units.forEach((stranded, k) => { view.nodes[i].gpus[k].stranded = stranded; }));
	view.waiting = data.waiting;
	view.runs = Boolean(data.runs);
	$("past").hidden = view.runs || !view.live;
	if (view.runs)
		document.title = `ration: ${$("title").textContent = "GPUs of this machine"}`;
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
	if (view.moment !== null)
		return;
	const answer = await fetch("data", {cache: "no-store", headers: view.etag ? {"If-None-Match": view.etag} : {}});
	const start = performance.now(), first = view.readAt === 0;
	if (view.moment !== null)
		return;
	if (answer.status === 200) {
		const data = await answer.json();
		if (view.moment !== null)
			return;
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

/* ---- the past ---- */

const timeText = (ms) => new Date(ms).toLocaleTimeString();

function pastProblem(text) {
	$("past-problem").hidden = !text;
	$("past-problem").textContent = text ?? "";
}

/* A fetch whose error is a sentence. */
async function ask(name, options) {
	let answer;
	try {
		answer = await fetch(name, {cache: "no-store", ...options});
	} catch (error) {
		throw options?.signal?.aborted ? error : new Error("`ration ui` does not answer: does it still run?");
	}
	const body = await answer.json();
	if (!answer.ok)
		throw new Error(body.error);
	return body;
}

async function openPast() {
	$("past-open").disabled = true;
	$("past-state").textContent = "The scheduler's history is being read.";
	try {
		view.history = await ask("history");
		const {from, to} = view.history, last = from + Math.ceil((to - from) / 1000) * 1000;    // the slider has steps of a second
		for (const [name, value] of Object.entries({min: from, max: last}))
			$("past-at").setAttribute(name, value);
		$("past-at").value = last;
		$("past-slider").hidden = false;
		$("past-state").textContent = `From ${timeText(view.history.from)} to ${timeText(view.history.to)}.`;
		pastProblem(null);
		movePast();
		$("past-at").focus();
	} catch (error) {
		$("past-state").textContent = "";
		pastProblem(error.message);
	}
	$("past-open").disabled = false;
}

function sayMoment(ms) {
	const minutes = Math.round((view.history.to - ms) / 60000);
	const text = `${timeText(ms)}, ${minutes ? `${plural(minutes, "minute")} before` : "at"} the end of the history`;
	$("past-at").setAttribute("aria-valuetext", text);
	$("past-text").textContent = text;
}

/* Asks for the moment of the slider; of several that are asked quickly only the last is answered. */
function movePast() {
	const ms = Number($("past-at").value);
	view.moment = ms;
	view.use.clear();
	$("use-problem").hidden = true;
	$("past-now").hidden = $("past-note").hidden = false;
	sayMoment(ms);
	view.asksMoment?.abort();
	const asking = view.asksMoment = new AbortController();
	setTimeout(async () => {
		if (asking.signal.aborted)
			return;
		try {
			const data = await ask(`moment?at=${ms}`, {signal: asking.signal});
			if (asking.signal.aborted)
				return;
			show(data);
			$("state").textContent = `As it was at ${timeText(ms)}.`;
			document.body.classList.add("past");
			pastProblem(null);
		} catch (error) {
			if (!asking.signal.aborted)
				pastProblem(error.message);
		}
	}, MOMENT_WAIT_MS);
}

async function closePast() {
	view.asksMoment?.abort();
	view.moment = view.etag = null;
	$("past-slider").hidden = $("past-now").hidden = $("past-note").hidden = true;
	$("past-state").textContent = "";
	document.body.classList.remove("past");
	pastProblem(null);
	$("past-open").focus();
	try {
		await update();
	} catch (error) {
		problem("`ration ui` does not answer: does it still run?");
	}
}

async function pause() {
	await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
	while (document.hidden)
		await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, {once: true}));
}

async function follow() {
	for (;; await pause()) {
		try {
			await update();
		} catch (error) {
			problem("`ration ui` does not answer: does it still run?");
		}
		if (!view.following)
			view.following = followUse();
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
	$("past-open").addEventListener("click", openPast);
	$("past-now").addEventListener("click", closePast);
	$("past-at").addEventListener("input", movePast);
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
