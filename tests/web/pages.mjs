// What pages.py runs: each line says `ok: …` or `FAILED: …`, the last one `done: `.

import { readFile } from "node:fs/promises";

const { chromium } = await import(process.env.PLAYWRIGHT);
const axe = await readFile(process.env.AXE, "utf8");
const hub = process.env.HUB_URL;
const BYTES_MAX = 100_000;

function check(name, ok, detail = "") {
  console.log(`${ok ? "ok" : "FAILED"}: ${name}${ok ? "" : ` ${detail}`}`);
}

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });

// A visitor; what goes wrong on their pages is noted.
async function visitor(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  context.setDefaultTimeout(300_000);
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (message) => message.type() === "error" && trouble.push(message.text()));
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("dialog", (dialog) => (trouble.push(`dialog ${dialog.message()}`), dialog.dismiss()));
  return { context, page, trouble };
}

async function visit({ page, trouble }, path, status = 200) {
  trouble.length = 0;
  const answer = await page.goto(hub + path, { waitUntil: "load" });
  if (answer.status() !== status) check(`${path} answers ${status}`, false, answer.status());
  return answer;
}

async function violations(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((v) => `${v.id} (${v.nodes.map((n) => `${n.target}: ${n.failureSummary}`).slice(0, 2).join("; ")})`);
}

const repo = "/ann/weights";
const pages = {
  home: "/",
  models: "/models?sort=size",
  "search of nothing": "/?search=none-of-that",
  repository: repo,
  "older revision": `${repo}/tree/v1`,
  folder: `${repo}/tree/main/pictures`,
  "long folder": "/datasets/ann/stones/tree/main/deep",
  history: `${repo}/commits/main`,
  safetensors: `${repo}/blob/main/model.safetensors`,
  json: `${repo}/blob/main/config.json`,
  text: `${repo}/blob/main/notes.txt`,
  image: `${repo}/blob/main/pictures/stone.png`,
  markdown: `${repo}/blob/main/README.md`,
  csv: "/datasets/ann/stones/blob/main/table.csv",
  parquet: "/datasets/ann/stones/blob/main/table.parquet",
  pack: "/datasets/ann/stones/blob/main/train.shardpack",
  record: "/datasets/ann/stones/blob/main/train.shardpack?key=stone-007",
  dataset: "/datasets/ann/stones",
  dedup: "/-/dedup",
  hostile: "/ann/hostile",
  nothing: "/ann/none",
};

const anyone = await visitor();
const keeper = await visitor({ extraHTTPHeaders: { Authorization: `Bearer ${process.env.HUB_TOKEN}` } });

// Every page: usable, quiet, small, also in the dark and on a narrow screen.
await visit(anyone, `${repo}/commits/main`);
pages.commit = await anyone.page.locator('a[href*="/commit/"]').first().getAttribute("href");
for (const [name, path] of Object.entries(pages)) {
  const { page, trouble } = anyone;
  const status = name === "nothing" ? 401 : 200;
  const answer = await visit(anyone, path, status);
  const bytes = (await answer.body()).length;
  check(`${name}: less than ${BYTES_MAX} bytes`, bytes < BYTES_MAX, bytes);
  const policy = answer.headers()["content-security-policy"] ?? "";
  check(`${name}: has a strict policy`, policy.startsWith("default-src 'none'; script-src 'self'") && !policy.includes("unsafe"));
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await violations(page);
    check(`${name}: axe finds nothing, ${colorScheme}`, found.length === 0, found.join(" | "));
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name.replaceAll(" ", "-")}-${colorScheme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(`${name}: fits a narrow screen`, wide <= 0, wide);
  await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name.replaceAll(" ", "-")}-narrow.png` });
  await page.setViewportSize({ width: 1200, height: 900 });
  const loud = trouble.filter((text) => !(name === "nothing" && text.includes("401")) && !(name === "hostile" && text.includes("404")));
  check(`${name}: nothing goes wrong`, loud.length === 0, loud.join(" | "));
}

// From the first visit to a file.
const { page } = anyone;
await visit(anyone, "/");
await page.keyboard.press("Tab");
check("the first stop of the keyboard skips to the content", (await page.evaluate(() => document.activeElement.className)) === "skip");
await page.getByRole("searchbox", { name: "Search repositories" }).fill("WEIGHTS");
await page.keyboard.press("Enter");
await page.waitForURL(/search=/);
check("a search finds by name", (await page.locator("tbody tr").count()) === 1);
await page.getByRole("link", { name: "ann/weights" }).click();
check("a README is rendered", (await page.locator(".text h2").innerText()) === "Weights");
check("a README's picture is loaded", await page.locator(".text img").evaluate((img) => img.complete && img.naturalWidth === 48));
await page.locator("details.menu summary").click();
await page.getByRole("link", { name: "v1", exact: true }).click();
check("a tag is chosen from the menu", page.url().endsWith("/tree/v1"));
await page.getByRole("link", { name: "model.safetensors" }).click();
check("a file of a tag is shown", page.url().endsWith("/blob/v1/model.safetensors"));
await visit(anyone, pages.safetensors);
check("tensors are listed", (await page.locator("table.data tbody tr").first().innerText()).includes("model.embed"));
check("tensors are counted", (await page.locator(".facts").nth(1).innerText()).includes("121"));
await page.getByRole("link", { name: "Next" }).first().click();
check("tensors come by page", (await page.locator("h2", { hasText: "Tensors 101 to 121 of 121" }).count()) === 1);
await visit(anyone, pages.safetensors);
const shares = await page.locator(".map tbody").first().innerText();
check("the map names the older version", shares.includes("version"), shares);
check("the map names another repository", shares.includes("ann/fine-tuned: model.safetensors"), shares);
check("the map is drawn", (await page.locator(".map rect.shared").count()) > 0);
check("the map has words", /6\.0 MB in .* terms of .* xorbs; \d+ % of it/.test(await page.locator(".map svg").getAttribute("aria-label")));
check("hashes are shown", (await page.locator(".facts").first().innerText()).includes("SHA-256"));
await visit(anyone, repo);
check("commands have the server's address", (await page.locator(".commands pre").first().innerText()).includes(`HF_ENDPOINT=${hub}`));
check("commands can be copied", (await page.locator(".commands .copier").count()) === 4);
await visit(anyone, pages.commit);
const diff = await page.locator(".diff").innerText();
check("a commit shows lines that changed", diff.includes("line twenty") && diff.includes("line 20") && !diff.includes("line 30"));
check("a commit shows sizes of large files", (await page.locator(".change", { hasText: "model.safetensors" }).innerText()).includes("6.0 MB → 6.0 MB"));
await visit(anyone, pages["long folder"]);
await page.getByRole("link", { name: "Next page" }).click();
check("a long folder goes on", (await page.locator(".files tbody tr").count()) === 51);
await visit(anyone, pages.parquet);
check("columns of Parquet are listed", (await page.locator("table.data").nth(1).innerText()).includes("tags.list.element"));
const rows = page.getByRole("region", { name: "The first 20 rows" }).locator("tbody tr");
check("the first rows of Parquet are shown", (await rows.count()) === 20 && /^stone 1\s+1\s+–\s+1970-01-02 00:00:00$/.test(await rows.nth(1).innerText()), await rows.nth(1).innerText());
check("missing and unprintable values are labelled", /null/.test(await rows.nth(3).innerText()) && /– \(a list\)/.test(await rows.first().innerText()));
await visit(anyone, pages.parquet.replace("table", "large"));
const large = await rows.allInnerTexts();
check("pages that are read on are shown, and a large one is not", /^0\s+– \(a large page\)$/.test(large[0]) && /^2654435761\s+–$/.test(large[1]) && large.length === 20, large.slice(0, 3).join());
await visit(anyone, pages.csv);
check("cells of CSV may have commas", (await page.locator("table.data tbody tr").first().innerText()).includes("grey, round"));

// Packs.
await visit(anyone, pages.pack);
check("records come by page", (await page.locator(".records li").count()) === 24);
const pictures = page.locator(".records img");
await pictures.first().scrollIntoViewIfNeeded();
check("records have thumbnails", await pictures.first().evaluate((img) => img.decode().then(() => img.naturalWidth === 48)));
await page.getByRole("link", { name: "Next" }).click();
check("records have a second page", (await page.locator(".records li").first().innerText()).includes("stone-024"));
await page.getByRole("searchbox", { name: "Key of a record" }).fill("stone-042");
await page.getByRole("button", { name: "Find" }).click();
await page.waitForURL(/key=/);
check("a record is found by its key", (await page.locator(".inner h3").innerText()).includes("stone-042"));
check("JSON of a record is spread out", (await page.locator(".entry pre").innerText()).includes('"label": 2,\n'));
check("a picture of a record is shown", await page.locator(".entry img").evaluate((img) => img.decode().then(() => img.naturalWidth === 48)));
await visit(anyone, `${pages.pack}?key=none`);
check("a missing key is reported", (await page.getByRole("status").innerText()).includes("No record has the key"));

// Who sees what.
await visit(anyone, "/");
check("anonymous visitors see public repositories only", !(await page.content()).includes("ann/secret"));
await visit(anyone, "/ann/secret", 401);
await visit(anyone, "/ann/secret/blob/main/a.txt", 401);
check("a private page tells nothing", !(await page.content()).includes("nobody else"));
await visit(keeper, "/");
check("a user with a token sees private ones", (await keeper.page.content()).includes("ann/secret"));
await visit(keeper, "/-/dedup");
check("the dashboard shows the whole server", (await keeper.page.locator(".plot polyline").count()) === 2);
check("the dashboard lists verifications", /verify\s+quick: \d+ objects.*nothing damaged/.test(await keeper.page.getByRole("region", { name: "Sweeps and verifications" }).innerText()));
check("the dashboard names files", (await keeper.page.locator("#files-title").count()) === 1);
const signedInPages = { dashboard: "/-/dedup", "sign-in": "/-/sign-in", account: "/-/account", admin: "/-/admin", upload: `${repo}/upload/main` };
for (const [name, path] of Object.entries(signedInPages)) {
  await visit(keeper, path);
  for (const colorScheme of ["light", "dark"]) {
    await keeper.page.emulateMedia({ colorScheme });
    const found = await violations(keeper.page);
    check(`${name}: axe finds nothing, ${colorScheme}`, found.length === 0, found.join(" | "));
    await keeper.page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}-${colorScheme}.png`, fullPage: true });
  }
  check(`${name}: nothing goes wrong`, keeper.trouble.length === 0, keeper.trouble.join(" | "));
}

// Nothing that is stored becomes script, wherever one goes.
const name = encodeURIComponent(process.env.HOSTILE_NAME);
const bad = "/ann/hostile";
const goTo = [bad, `${bad}/tree/main`, `${bad}/commits/main`, ...["page.html", "picture.svg", name, "table.csv", "broken.safetensors", "broken.parquet", "broken.shardpack", "README.md", "bad.shardpack"]
  .flatMap((file) => [`${bad}/blob/main/${file}`, `${bad}/raw/main/${file}`, `${bad}/resolve/main/${file}`]),
  `${bad}/blob/main/bad.shardpack?record=0`, `${bad}/entry/main/bad.shardpack?record=0&entry=a.svg`, `${bad}/entry/main/bad.shardpack?record=0&entry=a.html`];
for (const path of goTo) {
  anyone.trouble.length = 0;
  let answer;
  try {
    answer = await page.goto(hub + path, { waitUntil: "load" });
  } catch (error) {
    // Browsers save some of them instead.
    answer = String(error).includes("Download is starting") || String(error).includes("ERR_ABORTED") ? "saved" : undefined;
  }
  const hacked = await page.evaluate(() => window.hacked);
  check(`${path} runs nothing`, answer !== undefined && hacked === undefined && !anyone.trouble.some((text) => text.startsWith("dialog")), anyone.trouble.join());
}
await visit(anyone, bad);
const left = await page.locator(".text").evaluate((text) => text.querySelectorAll("script, iframe, svg, style, form, input, base, [style], [id], [class], [onerror]").length);
check("of a hostile README only text is left", left === 0, left);
check("a picture from elsewhere is not asked for", (await page.locator('.text img[src*="example.org"]').count()) === 0);
await visit(anyone, `${bad}/blob/main/picture.svg`);
check("an untrusted picture is shown as a picture", await page.locator(".picture img").evaluate((img) => img.decode().then(() => img.naturalWidth === 40)));
check("the page stands above the README", await page.evaluate(() => document.querySelectorAll("#main").length === 1));

// Without scripts.
const plain = await visitor({ javaScriptEnabled: false });
for (const name of ["home", "repository", "safetensors", "record", "commit", "dedup"]) {
  await visit(plain, pages[name]);
  check(`${name}: works without scripts`, (await plain.page.locator("h1").innerText()).length > 0);
}
await browser.close();
console.log("done: ");
