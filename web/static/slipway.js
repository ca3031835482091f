// Keeps a page current, says what changed, and fills in what only a browser knows. Every page works without it.

const body = document.body;
const STALE_MS = 4000;
let revision = body.dataset.rev;
let everyMs = Number(body.dataset.every) || 2000;
let lastSeen = Date.now();
let pressing = false;
let held = false;

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime()) || time.dataset.local) continue;
    time.dataset.local = "1";
    time.title = moment.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
    const here = moment.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
    if (moment.getTimezoneOffset() !== 0) {
      const local = document.createElement("span");
      local.className = "local";
      local.textContent = ` (${here} here)`;
      time.append(local);
    }
  }
}

function tools(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(text);
        button.textContent = "Selected: copy it";
      }
    });
  }
  for (const button of root.querySelectorAll("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => print());
  }
}

// A replacement under somebody's finger or pen would be worse than a page that is two seconds old.
function busy(part) {
  const at = document.activeElement;
  const writing = at && part.contains(at) && /^(TEXTAREA|INPUT)$/.test(at.tagName) && at.value;
  return pressing || Boolean(writing) || getSelection().type === "Range";
}

function place(fresh) {
  const id = body.dataset.swap;
  const old = document.getElementById(id);
  const made = fresh.getElementById(id);
  if (!old || !made) return location.reload();
  const open = [...old.querySelectorAll("details[open][id]")].map((each) => each.id);
  const focused = old.contains(document.activeElement) ? path(document.activeElement, old) : null;
  old.replaceWith(document.adoptNode(made));
  for (const name of open) document.getElementById(name)?.setAttribute("open", "");
  if (focused) find(focused, made)?.focus({ preventScroll: true });
  if (document.title !== fresh.title) {
    document.title = fresh.title;
    document.getElementById("said").textContent = fresh.title.split(" · Slipway")[0];
  }
  const asof = document.getElementById("asof");
  const now = fresh.getElementById("asof");
  if (asof && now) asof.replaceChildren(...now.childNodes);
  everyMs = Number(fresh.body.dataset.every) || everyMs;
  localTimes(document);
  tools(made);
}

// Where an element is, by what it leads to or else by its place.
function path(element, root) {
  const href = element.getAttribute("href");
  if (href) return { selector: `a[href="${CSS.escape(href)}"]`, href };
  const all = [...root.querySelectorAll(element.tagName)];
  return { tag: element.tagName, index: all.indexOf(element) };
}

function find(where, root) {
  if (where.href) return [...root.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === where.href);
  return root.querySelectorAll(where.tag)[where.index];
}

async function get(address) {
  const answer = await fetch(address, { signal: AbortSignal.timeout(STALE_MS), headers: { accept: "*/*" } });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(String(answer.status));
  return answer;
}

async function look() {
  const told = await (await get(`/rev${location.pathname}`)).json();
  everyMs = told.every_ms;
  if (told.rev !== revision) {
    const part = document.getElementById(body.dataset.swap);
    held = !part || busy(part);
    if (held) return;
    const html = await (await get(location.pathname + location.search)).text();
    place(new DOMParser().parseFromString(html, "text/html"));
    revision = told.rev;
  }
  held = false;
  lastSeen = Date.now();
  document.cookie = "slipway_alive=1; path=/; max-age=15; samesite=strict";
}

function age() {
  const old = Date.now() - lastSeen;
  const stale = document.getElementById("stale");
  const asof = document.getElementById("asof");
  stale.hidden = old <= STALE_MS;
  asof?.classList.toggle("old", old > STALE_MS);
  if (old > STALE_MS) {
    const why = held ? "it changed while you write or select text here" : `no answer for ${Math.round(old / 1000)} s`;
    stale.textContent = `Not current: ${why}. What you see is as of ${new Date(lastSeen).toISOString().slice(11, 19)}Z.`;
  }
}

async function run() {
  for (;;) {
    await new Promise((done) => setTimeout(done, everyMs));
    if (document.hidden) {
      lastSeen = Date.now();
      continue;
    }
    await look().catch(() => {});
  }
}

localTimes(document);
tools(document);
addEventListener("pointerdown", () => { pressing = true; });
for (const over of ["pointerup", "pointercancel"]) addEventListener(over, () => { setTimeout(() => { pressing = false; }, 400); });
if (revision) {
  setInterval(age, 500);
  run();
}
