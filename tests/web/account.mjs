// What pages.py runs after pages.mjs: signing in, own tokens, administration, upload. Lines as there.

import { readFile } from "node:fs/promises";

const { chromium } = await import(process.env.PLAYWRIGHT);
const axe = await readFile(process.env.AXE, "utf8");
const hub = process.env.HUB_URL;

function check(name, ok, detail = "") {
  console.log(`${ok ? "ok" : "FAILED"}: ${name}${ok ? "" : ` ${detail}`}`);
}

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: flags });

async function visitor() {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 } });
  context.setDefaultTimeout(60_000);
  return { context, page: await context.newPage() };
}

async function checkPage(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    const violations = found.violations.map((v) => `${v.id} (${v.nodes.map((n) => n.target).slice(0, 3).join("; ")})`);
    check(`${name}: axe finds nothing, ${colorScheme}`, violations.length === 0, violations.join(" | "));
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name.replaceAll(" ", "-")}-${colorScheme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  check(`${name}: fits a narrow screen`, wide <= 0, wide);
  await page.setViewportSize({ width: 1200, height: 900 });
}

// By a token.
const { context, page } = await visitor();
await page.goto(`${hub}/ann/secret`);
check("a private repository asks to sign in", (await page.title()).includes("signing in"), await page.title());
await page.getByRole("link", { name: "Sign in" }).click();
await checkPage(page, "sign in");
await page.getByLabel("Token", { exact: true }).fill("ds_wrong");
await page.getByRole("button", { name: "Sign in with the token" }).click();
check("a wrong token is reported", (await page.getByRole("alert").innerText()).includes("opens nothing"));
await page.getByLabel("Token", { exact: true }).fill(process.env.HUB_TOKEN);
await page.getByRole("button", { name: "Sign in with the token" }).click();
await page.getByRole("button", { name: "Sign out" }).waitFor();
const cookies = await context.cookies();
const session = cookies.find((cookie) => cookie.name === "drystone-session");
check("the cookie is out of reach of scripts and other sites", session?.httpOnly && session.sameSite === "Lax" && session.value !== process.env.HUB_TOKEN);
check("no script sees it", (await page.evaluate(() => document.cookie)) === "");
await page.goto(`${hub}/ann/secret`);
check("a signed-in user sees private repositories", (await page.title()).includes("ann/secret"), await page.title());

// Own tokens.
await page.goto(`${hub}/-/account`);
await page.getByLabel("Name", { exact: true }).fill("laptop <b>");
await page.getByRole("button", { name: "Make it" }).click();
const made = (await page.getByLabel("New token").innerText()).match(/ds_[\w-]{43}/)?.[0];
check("a token is shown when it is made", made !== undefined);
const whoami = await fetch(`${hub}/api/whoami-v2`, { headers: { Authorization: `Bearer ${made}` } });
check("and opens the hub", whoami.status === 200, whoami.status);
await checkPage(page, "account");
await page.goto(`${hub}/-/account`);
check("and is shown only once", !(await page.content()).includes(made));
await page.getByRole("button", { name: /Revoke laptop/ }).click();
await page.waitForURL(/account$/);
check("a token can be revoked", (await page.getByRole("button", { name: /Revoke laptop/ }).count()) === 0);

// Administration.
await page.goto(`${hub}/-/admin`);
const users = page.getByRole("region", { name: "Users" });
await users.getByLabel("Name").fill("bob");
await users.getByRole("button", { name: "Add user" }).click();
await page.locator("li", { hasText: "bob" }).first().waitFor();
await users.getByLabel("Password").fill("a long password");
await users.getByRole("button", { name: "Set password" }).click();
await page.waitForLoadState();
const orgs = page.getByRole("region", { name: "Organisations" });
await orgs.getByLabel("Name").fill("team");
await orgs.getByRole("button", { name: "Add organisation" }).click();
await orgs.getByLabel("Role").selectOption("write");
await orgs.getByRole("button", { name: "Add member to team" }).click();
await page.getByRole("button", { name: "Remove bob from team" }).waitFor();
check("users, organisations and members are added", true);
const tokens = page.getByRole("region", { name: "Tokens" });
await tokens.getByLabel("Whose").fill("bob");
await tokens.getByLabel("Name").fill("for work");
await tokens.getByLabel("It may").selectOption("write");
await tokens.getByRole("button", { name: "Make token" }).click();
const bobs = (await page.getByLabel("New token").innerText()).match(/ds_[\w-]{43}/)?.[0];
check("a token for another user is shown once", bobs !== undefined);
// Made for a user: it is the user's, and may do what the user may.
const ofTeam = await fetch(`${hub}/api/repos/create`, { method: "POST", headers: { Authorization: `Bearer ${bobs}` }, body: JSON.stringify({ name: "team/bobs", type: "model" }) });
const ofAnn = await fetch(`${hub}/api/repos/create`, { method: "POST", headers: { Authorization: `Bearer ${bobs}` }, body: JSON.stringify({ name: "ann/bobs", type: "model" }) });
check("and may do what the user may", ofTeam.status === 200 && ofAnn.status === 403, `${ofTeam.status} ${ofAnn.status}`);
const quotas = page.getByRole("region", { name: "Quotas" });
await quotas.getByLabel("Namespace or repository").fill("ann");
await quotas.getByLabel("Refuse at, GB of files").fill("100");
await quotas.getByRole("button", { name: "Set quota" }).click();
await page.getByRole("button", { name: "Remove the quota of ann" }).waitFor();
check("a quota is set", (await quotas.locator("tbody tr").innerText()).includes("100 GB"));
await page.getByRole("link", { name: "Audit log" }).click();
check("the audit log has it", /quota/.test(await page.locator("tbody").innerText()) && !/ds_/.test(await page.content()));
await checkPage(page, "audit");
await fetch(`${hub}/api/repos/delete`, { method: "DELETE", headers: { Authorization: `Bearer ${process.env.HUB_TOKEN}` },
  body: JSON.stringify({ name: "ann/fine-tuned", type: "model" }) });
await page.goto(`${hub}/-/admin`);
await checkPage(page, "admin");
await page.getByRole("button", { name: "Restore ann/fine-tuned" }).click();
await page.waitForLoadState();
check("a repository comes back from the trash", (await (await fetch(`${hub}/api/models/ann/fine-tuned`)).status) === 200);

// Only the server's own pages can change something.
const word = await page.locator("input[name=word]").first().getAttribute("value");
const forged = async (form, headers) => (await context.request.post(`${hub}/-/admin/user`, { form, headers, maxRedirects: 0 })).status();
check("without the word nothing is changed", (await forged({ name: "eve" }, {})) === 403);
check("with a wrong one neither", (await forged({ name: "eve", word: "0".repeat(32) }, {})) === 403);
check("nor from another site", (await forged({ name: "eve", word }, { "sec-fetch-site": "cross-site" })) === 403);
check("nor from another origin", (await forged({ name: "eve", word }, { origin: "http://evil.example" })) === 403);
const byCookie = await context.request.post(`${hub}/api/repos/create`, { data: { name: "ann/forged" } });
check("a cookie does not write through the API", byCookie.status() === 401, byCookie.status());
await page.goto(`${hub}/-/admin`);
check("nobody was added", (await page.getByRole("region", { name: "Users" }).getByRole("listitem").allInnerTexts()).map((text) => text.split(/\s/)[0]).join() === "bob");

// Upload, then the same again: nothing of it is new. The first goes slowly, so that it can be watched.
const line = await context.newCDPSession(page);
await line.send("Network.enable");
for (const turn of ["first", "second"]) {
  await page.goto(`${hub}/ann/weights/upload/main`);
  if (turn === "first") await checkPage(page, "upload");
  await line.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: turn === "first" ? 1_500_000 : -1 });
  const files = [{ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a small text\n") }];
  const large = { name: "from a browser.bin", mimeType: "application/octet-stream", buffer: await readFile(process.env.UPLOAD) };
  await page.locator("input[type=file]").setInputFiles([...files, large]);
  await page.getByLabel("Folder").fill("sent");
  const note = page.locator(".uploads tbody tr", { hasText: "note.txt" });
  await note.filter({ hasText: turn === "first" ? "new" : "replaces 13 B" }).waitFor();
  const before = await page.getByRole("status").innerText();
  check(`the ${turn} upload says before it begins what it replaces`, turn === "first" ? /2 new, 0 replace an existing file/.test(before) : /0 new, 2 replace an existing file/.test(before), before);
  await page.evaluate(() => {
    window.seen = [];
    new MutationObserver(() => window.seen.push(document.querySelector(".uploads tbody").innerText)).observe(document.querySelector(".uploads"), { subtree: true, childList: true, characterData: true });
  });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.getByRole("link", { name: "Show the files" }).waitFor();
  const status = await page.getByRole("status").innerText();
  check(`${turn} upload reports what was new`, turn === "first" ? status.includes("9.0 MB of it new") : /, 13 B of it new, 100 % was here already/.test(status), status);
  if (turn === "first") {
    const watched = (await page.evaluate(() => window.seen)).join("\n");
    check("new bytes are reported while a file is sent", /[1-8]\.\d MB sent, [1-8]\.\d MB new/.test(watched), watched.slice(-300));
  }
  if (turn === "second") await page.screenshot({ path: `${process.env.SCREENSHOTS}/uploaded.png` });
}
await page.getByRole("link", { name: "Show the files" }).click();
await page.getByRole("link", { name: "sent/" }).click();
check("uploaded files are listed", (await page.getByRole("link", { name: "from a browser.bin" }).count()) === 1);

// What a branch has left comes back.
const asKeeper = (method, path, data) => fetch(`${hub}${path}`, { method, headers: { Authorization: `Bearer ${process.env.HUB_TOKEN}` }, body: data && JSON.stringify(data) });
await asKeeper("POST", "/api/models/ann/weights/super-squash/main", { message: "All in one" });
await page.goto(`${hub}/ann/weights/commits/main`);
check("a squashed history is short", (await page.getByRole("region", { name: "History" }).locator("h2").innerText()) === "1 commit");
await page.getByRole("link", { name: "Undelete", exact: true }).click();
await checkPage(page, "undelete");
const lost = page.locator("tbody tr", { hasText: "Upload files" }).first();
check("what a branch has left is listed with its end", /main/.test(await lost.innerText()) && /\d{4}-\d\d-\d\d/.test(await lost.innerText()), await lost.innerText());
await lost.getByRole("link").first().click();
check("and can be viewed", (await page.locator(".change").count()) > 0);
await page.goBack();
await lost.getByLabel("As branch").fill("before");
await lost.getByRole("button", { name: /Bring back/ }).click();
await page.waitForURL(/commits\/before$/);
check("and comes back as a branch", (await page.locator("tbody").innerText()).includes("Train a little more"));
await page.goto(`${hub}/ann/weights/undelete`);
await page.locator("tbody tr", { hasText: "Upload files" }).first().getByRole("button", { name: /Bring back/ }).click();
await page.waitForURL(/commits\/main$/);
check("or to where it was", (await page.locator("tbody").innerText()).includes("Train a little more"));
await page.goto(`${hub}/ann/weights/undelete`);
await page.getByRole("region", { name: "A file" }).getByLabel("Path").fill("no such file");
await page.getByRole("button", { name: "Bring back the file" }).click();
check("a missing file is reported", /no file/.test(await page.locator("main").innerText()), await page.locator("main").innerText());

// Out, and in again with a password.
await page.goto(`${hub}/`);
await page.getByRole("button", { name: "Sign out" }).click();
await page.getByRole("link", { name: "Sign in" }).waitFor();
await context.addCookies([session]);
await page.goto(`${hub}/-/admin`);
const over = async () => (await page.goto(`${hub}/-/admin`)).status() === 401;
let isOver = await over();
for (let tries = 0; tries < 20 && !isOver; tries++) {
  await new Promise((done) => setTimeout(done, 500));
  isOver = await over();
}
check("a session that was ended opens nothing", isOver);
const bob = await visitor();
await bob.page.goto(`${hub}/-/sign-in?next=//evil.example/`);
await bob.page.getByLabel("Name", { exact: true }).fill("bob");
await bob.page.getByLabel("Password", { exact: true }).fill("another password");
await bob.page.getByRole("button", { name: "Sign in with the password" }).click();
check("a wrong password is reported", (await bob.page.getByRole("alert").innerText()).includes("do not match"));
await bob.page.getByLabel("Password", { exact: true }).fill("a long password");
await bob.page.getByRole("button", { name: "Sign in with the password" }).click();
await bob.page.getByRole("button", { name: "Sign out" }).waitFor();
check("a password signs in, and stays on this server", bob.page.url() === `${hub}/`, bob.page.url());
check("other users have no administration page", (await bob.page.goto(`${hub}/-/admin`)).status() === 403);
check("and uploads nowhere else", (await bob.page.goto(`${hub}/ann/weights/upload/main`)).status() === 403);
await bob.page.goto(`${hub}/-/account`);
await bob.page.getByLabel("Name", { exact: true }).fill("own");
await bob.page.getByRole("button", { name: "Make it" }).click();
check("a user with a password creates tokens", /ds_/.test(await bob.page.getByLabel("New token").innerText()));
await page.goto(`${hub}/-/sign-in`);
await page.getByLabel("Token", { exact: true }).fill(process.env.HUB_TOKEN);
await page.getByRole("button", { name: "Sign in with the token" }).click();
const isBobIn = async () => (await bob.page.goto(`${hub}/-/account`)).status() === 200;
for (const [button, expected] of [["Disable", false], ["Enable", true]]) {
  await page.goto(`${hub}/-/admin`);
  if (button === "Disable") await page.locator("summary", { hasText: "Disable" }).click();
  await page.getByRole("button", { name: `${button} bob` }).click();
  await page.waitForLoadState();
  let is = await isBobIn();
  for (let tries = 0; tries < 60 && is && !expected; tries++) {
    await new Promise((done) => setTimeout(done, 500));
    is = await isBobIn();
  }
  check(`${button}: the session of a user who was disabled is over`, !is);
}
await page.getByRole("button", { name: "Sign out" }).click();
await new Promise((done) => setTimeout(done, 2500));
const holder = await visitor();
await holder.page.goto(`${hub}/-/sign-in`);
await holder.page.getByLabel("Token", { exact: true }).fill(bobs);
await holder.page.getByRole("button", { name: "Sign in with the token" }).click();
await holder.page.getByRole("button", { name: "Sign out" }).waitFor();
await holder.page.goto(`${hub}/-/account`);
await holder.page.getByLabel("Name", { exact: true }).fill("for ever");
await holder.page.getByRole("button", { name: "Make it" }).click();
check("a token alone creates no others", (await holder.page.locator(".status").innerText()) === "403");
await page.goto(`${hub}/-/sign-in`);
await page.getByLabel("Token", { exact: true }).fill(process.env.HUB_TOKEN);
await page.getByRole("button", { name: "Sign in with the token" }).click();
await page.goto(`${hub}/-/admin`);
await page.getByRole("button", { name: /Revoke for work/ }).click();
await page.waitForLoadState();
const isOut = async () => (await holder.page.goto(`${hub}/-/account`)).status() === 401;
let isHolderOut = await isOut();
for (let tries = 0; tries < 60 && !isHolderOut; tries++) {
  await new Promise((done) => setTimeout(done, 500));
  isHolderOut = await isOut();
}
check("a session ends with the token that opened it", isHolderOut);
await browser.close();
console.log("done: ");
