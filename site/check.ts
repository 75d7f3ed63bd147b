/** Opens every page of the built site in Chromium: no dead links or anchors, no missing images, no requests to other hosts; search and dark mode work. */
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import { chromium, type Page } from "playwright-core";
import { fromRoot } from "../build/paths.js";

const site = fromRoot(".cache/site");
const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".webp": "image/webp",
  ".json": "application/json",
};

const server = createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://site").pathname));
  const file = join(site, path.endsWith("/") ? `${path}index.html` : path);
  if (!file.startsWith(site) || !existsSync(file) || !statSync(file).isFile()) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
});

const IMAGE = /\.(?:svg|webp|png)$/;
const problems: string[] = [];

/** Links of the page to this site, with their anchors. */
async function visit(page: Page, url: string): Promise<string[]> {
  const response = await page.goto(url, { waitUntil: "load" });
  if (response?.status() !== 200) problems.push(`${url}: ${response?.status()}`);
  const { links, broken, isUnstyled } = await page.evaluate(() => ({
    links: [...document.querySelectorAll<HTMLAnchorElement>("a[href]")].map((link) => link.href),
    broken: [...document.images]
      .filter((image) => image.complete && image.naturalWidth === 0)
      .map((image) => image.src),
    isUnstyled: document.querySelector(".VPNav, .VPHero") === null,
  }));
  for (const image of broken) problems.push(`${url}: the image ${image} is missing`);
  if (isUnstyled) problems.push(`${url}: not rendered`);
  return links.filter((link) => new URL(link).origin === new URL(url).origin);
}

async function main(): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  try {
    const page = await browser.newPage();
    page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.message}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin !== origin && url.protocol !== "data:" && url.protocol !== "blob:")
        problems.push(`${page.url()}: requests ${url.href}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400) problems.push(`${page.url()}: ${response.status()} for ${response.url()}`);
    });
    const anchors = new Map<string, Set<string>>();
    const waiting = [`${origin}/index.html`];
    const linked = new Map<string, string>();
    for (let url = waiting.pop(); url !== undefined; url = waiting.pop()) {
      const path = url.split("#")[0]!;
      if (anchors.has(path)) continue;
      const links = await visit(page, path);
      anchors.set(path, new Set(await page.evaluate(() => [...document.querySelectorAll("[id]")].map(({ id }) => id))));
      for (const link of links) {
        const target = link.endsWith("/") ? `${link}index.html` : link;
        linked.set(target, path);
        if (!IMAGE.test(target)) waiting.push(target);
      }
    }
    for (const [link, from] of linked) {
      const [path = "", anchor] = link.split("#");
      if (IMAGE.test(path) && !existsSync(join(site, new URL(path).pathname)))
        problems.push(`${from}: no file for ${link}`);
      if (anchor !== undefined && anchor !== "" && !anchors.get(path)?.has(decodeURIComponent(anchor)))
        problems.push(`${from}: no heading for ${link}`);
    }
    await page.goto(`${origin}/guides/getting-started.html`);
    await page.locator(".VPSwitchAppearance").first().click();
    if (!(await page.evaluate(() => document.documentElement.classList.contains("dark"))))
      problems.push("dark mode does not work");
    await page.keyboard.press("Control+k");
    await page.locator(".VPLocalSearchBox input").fill("borrow");
    await page.locator(".VPLocalSearchBox .result").first().waitFor({ timeout: 10_000 });
    console.log(`${anchors.size} pages checked in Chromium, ${problems.length} problems`);
  } finally {
    await browser.close();
    server.close();
  }
  for (const problem of [...new Set(problems)]) console.error(problem);
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main();
