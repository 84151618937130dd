// Upload: the server decides about files, the large ones are sent one after another, then all become one commit.

const box = document.querySelector("[data-upload]");
const input = box.querySelector("input[type=file]");
const drop = box.querySelector(".drop");
const table = box.querySelector("table");
const state = box.querySelector("[role=status]");
const start = box.querySelector("[data-start]");
const field = (name) => box.querySelector(`input[name=${name}]`);
const headers = { "x-drystone-word": box.dataset.word };
let files = [];
let typing;

const units = ["B", "kB", "MB", "GB", "TB"];
function bytes(count) {
  let unit = 0;
  for (; count >= 999.5 && unit < units.length - 1; unit++) count /= 1000;
  return `${unit === 0 || count >= 9.95 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

function show(chosen) {
  files = Array.from(chosen, (file) => ({ file }));
  const body = table.tBodies[0];
  body.replaceChildren();
  for (const entry of files) {
    const row = body.insertRow();
    row.insertCell().textContent = entry.file.name;
    const size = row.insertCell();
    size.className = "num";
    size.textContent = bytes(entry.file.size);
    entry.change = row.insertCell();
    entry.bar = document.createElement("progress");
    entry.bar.max = Math.max(1, entry.file.size);
    entry.bar.value = 0;
    entry.bar.setAttribute("aria-label", `Progress of ${entry.file.name}`);
    row.insertCell().append(entry.bar);
    entry.fresh = row.insertCell();
    entry.fresh.className = "num";
  }
  table.hidden = files.length === 0;
  start.disabled = true;
  const total = files.reduce((sum, entry) => sum + entry.file.size, 0);
  state.textContent = files.length ? `${files.length} ${files.length === 1 ? "file" : "files"}, ${bytes(total)}` : "";
  compare();
}

// Asks where each file goes and what is at its path now.
async function decide() {
  const folder = field("folder").value.replace(/^\/+|\/+$/g, "");
  for (const entry of files) entry.path = folder ? `${folder}/${entry.file.name}` : entry.file.name;
  const candidates = [];
  for (const entry of files) {
    candidates.push({ path: entry.path, size: entry.file.size, sample: await base64(entry.file.slice(0, 512)) });
  }
  const decided = await post("decide", JSON.stringify({ files: candidates }), "application/json");
  return new Map(decided.files.map((file) => [file.path, file]));
}

// Says before anything is sent which files are new and which replace one.
async function compare() {
  const chosen = files;
  if (!chosen.length || input.disabled) return;
  start.disabled = true;
  const decided = await decide().catch((error) => {
    if (chosen === files) state.textContent = `Cannot be uploaded: ${error.message}`;
  });
  if (chosen !== files) return;
  start.disabled = false;
  if (!decided) return;
  const total = chosen.reduce((sum, entry) => sum + entry.file.size, 0);
  let replaced = 0;
  for (const entry of chosen) {
    const now = decided.get(entry.path)?.currentSize;
    entry.change.textContent = now === undefined ? "new" : `replaces ${bytes(now)}`;
    entry.change.className = now === undefined ? "" : "replaces";
    replaced += now === undefined ? 0 : 1;
  }
  const fresh = chosen.length - replaced;
  state.textContent = `${chosen.length} ${chosen.length === 1 ? "file" : "files"}, ${bytes(total)}: ${fresh} new, ${replaced} ${replaced === 1 ? "replaces" : "replace"} an existing file`;
}

async function post(path, body, type) {
  const answer = await fetch(`${box.dataset.upload}/-/${path}`, { method: "POST", body, headers: { ...headers, "content-type": type } });
  const reply = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(reply.error || `the server answered ${answer.status}`);
  return reply;
}

async function base64(blob) {
  const raw = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < raw.length; at += 32768) text += String.fromCharCode(...raw.subarray(at, at + 32768));
  return btoa(text);
}

// The one thing fetch does not tell is how much has been sent.
function send(entry, id) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `${box.dataset.upload}/-/file?id=${id}`);
    request.setRequestHeader("x-drystone-word", headers["x-drystone-word"]);
    request.upload.onprogress = (event) => { entry.bar.value = event.loaded; };
    request.onerror = () => failed(new Error(`${entry.file.name}: the connection broke`));
    request.onload = () => {
      let reply = {};
      try { reply = JSON.parse(request.responseText); } catch { /* not ours */ }
      if (request.status !== 200) failed(new Error(`${entry.file.name}: ${reply.error || request.status}`));
      else done(reply);
    };
    request.send(entry.file);
  });
}

// Displays what of a file that is on its way was new so far, where the server knows.
async function follow(entry, id) {
  while (entry.isSending) {
    await new Promise((done) => setTimeout(done, 500));
    const answer = entry.isSending && (await fetch(`${box.dataset.upload}/-/file?id=${id}`).catch(() => undefined));
    const reply = answer?.ok && (await answer.json().catch(() => undefined));
    if (reply && entry.isSending) entry.fresh.textContent = `${bytes(reply.receivedBytes)} sent, ${bytes(reply.newBytes)} new`;
  }
}

async function upload() {
  start.disabled = true;
  input.disabled = true;
  const decided = await decide();
  const lines = [{ key: "header", value: { summary: field("message").value || "Upload files" } }];
  let total = 0;
  let fresh = 0;
  for (const entry of files) {
    state.textContent = `Sending ${entry.path}`;
    total += entry.file.size;
    if (decided.get(entry.path)?.uploadMode === "regular") {
      lines.push({ key: "file", value: { path: entry.path, content: await base64(entry.file), encoding: "base64" } });
      fresh += entry.file.size;
      entry.fresh.textContent = bytes(entry.file.size);
    } else {
      const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
      entry.isSending = true;
      follow(entry, id);
      const reply = await send(entry, id).finally(() => { entry.isSending = false; });
      lines.push({ key: "lfsFile", value: { path: entry.path, algo: "sha256", oid: reply.oid, size: reply.size } });
      fresh += reply.newBytes;
      entry.fresh.textContent = bytes(reply.newBytes);
    }
    entry.bar.value = entry.bar.max;
    state.textContent = `${bytes(total)} sent, ${bytes(fresh)} of it new`;
  }
  await post("commit", lines.map((line) => JSON.stringify(line)).join("\n"), "application/x-ndjson");
  const saved = total ? Math.round(100 * (1 - fresh / total)) : 0;
  state.textContent = `Done: ${bytes(total)}, ${bytes(fresh)} of it new, ${saved} % was here already. `;
  const link = document.createElement("a");
  link.href = box.dataset.done;
  link.textContent = "Show the files";
  state.append(link);
}

input.addEventListener("change", () => show(input.files));
field("folder").addEventListener("input", () => {
  start.disabled = true;
  clearTimeout(typing);
  typing = setTimeout(compare, 300);
});
for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
}
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => { event.preventDefault(); show(event.dataTransfer.files); });
start.addEventListener("click", () => {
  upload().catch((error) => {
    state.textContent = `Not uploaded: ${error.message}`;
    start.disabled = false;
  }).finally(() => { input.disabled = false; });
});
