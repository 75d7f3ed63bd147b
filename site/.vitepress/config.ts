/** The static site of docs/: search in the browser, dark mode, and no requests to other hosts. */
import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const docs = join(root, "docs");
const REPOSITORY = "https://github.com/tollgate/tollgate/blob/main";

const titleOf = (page: string) => /^# (.*)$/m.exec(readFileSync(join(docs, page), "utf8"))?.[1] ?? page;
const pagesIn = (folder: string) =>
  readdirSync(join(docs, folder))
    .filter((name) => name.endsWith(".md") && name !== "index.md")
    .map((name) => (folder === "." ? name : `${folder}/${name}`));
const entry = (page: string) => ({ text: titleOf(page), link: `/${page.replace(/\.md$/, "")}` });

/** In the order in which a new user needs them; guides that are not listed follow. */
const FIRST = ["getting-started", "nginx", "openresty", "envoy", "websockets", "library", "migrating-from-ratelimit"];
const guides = pagesIn("guides").sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
function rank(page: string): number {
  const at = FIRST.indexOf(page.replace(/^guides\/|\.md$/g, ""));
  return at < 0 ? FIRST.length : at;
}

const OPERATING = [
  "DEPLOYMENT.md",
  "OPERATIONS.md",
  "TROUBLESHOOTING.md",
  "DASHBOARD.md",
  "MONITORING.md",
  "SECURITY.md",
  "TLS.md",
];
const REFERENCE = [
  "CONFIGURATION.md",
  "LIMITS.md",
  "RATE_LIMITS.md",
  "API.md",
  "METRICS.md",
  "CODES.md",
  ...pagesIn("reference").sort(),
];
const others = pagesIn(".").filter((page) => ![...OPERATING, ...REFERENCE].includes(page));

/** The anchor of a heading as GitHub makes it, so that links work in both places. */
function gitHubAnchor(heading: string): string {
  const kept = heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\-_ ]/gu, "");
  return kept.replaceAll(" ", "-");
}

export default defineConfig({
  title: "Tollgate",
  description: "Rate and connection limits that hold exactly when many proxies share them.",
  // Browsers ask for /favicon.ico otherwise.
  head: [["link", { rel: "icon", href: "data:," }]],
  srcDir: relative(join(root, "site"), docs),
  outDir: join(root, ".cache/site"),
  cacheDir: join(root, ".cache/vitepress"),
  cleanUrls: false,
  // Addresses of the reader's own machine.
  ignoreDeadLinks: [/^http:\/\/localhost[:/]/],
  // Pages also link to images, which are only copied automatically where they are shown.
  buildEnd: ({ outDir }) => cpSync(join(docs, "images"), join(outDir, "images"), { recursive: true }),
  markdown: {
    anchor: { slugify: gitHubAnchor },
    config(markdown) {
      // Pages link to files of the repository outside of docs/, as GitHub shows them.
      const usual =
        markdown.renderer.rules.link_open ?? ((tokens, i, options, _env, self) => self.renderToken(tokens, i, options));
      markdown.core.ruler.push("repository-links", (state) => {
        const page = (state.env as { path?: string }).path ?? docs;
        for (const token of state.tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.attrGet("href");
          if (token.type !== "link_open" || href === null || /^(?:[a-z]+:|#|\/)/.test(href)) continue;
          const [path = "", anchor] = href.split("#");
          const target = resolve(dirname(page), path);
          if (target.startsWith(`${docs}/`) || !existsSync(target)) continue;
          token.attrSet("href", `${REPOSITORY}/${relative(root, target)}${anchor === undefined ? "" : `#${anchor}`}`);
        }
      });
      markdown.renderer.rules.link_open = usual;
    },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    sidebar: [
      { text: "Guides", items: guides.map(entry) },
      { text: "Operating", items: OPERATING.map(entry) },
      { text: "Reference", items: REFERENCE.map(entry) },
      { text: "More", collapsed: true, items: others.map(entry) },
    ],
    nav: [
      { text: "Getting started", link: "/guides/getting-started" },
      { text: "Configuration", link: "/CONFIGURATION" },
    ],
  },
});
