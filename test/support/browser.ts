/** Headless Chromium for tests of the dashboard. */
import { type Browser, chromium, type Page } from "playwright-core";

/** Without background requests to other hosts. */
const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.TOLLGATE_CHROMIUM ?? "/usr/bin/chromium",
    args,
    timeout: 120_000,
  });
}

export interface DashboardPage {
  page: Page;
  /** Errors of scripts and violations of the content security policy. */
  errors: string[];
}

/** A page with its own cookies. */
export async function openDashboard(browser: Browser, url: string, width = 1440): Promise<DashboardPage> {
  const context = await browser.newContext({ viewport: { width, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    // A failed fetch is also reported as an error of the console; those are expected.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      errors.push(message.text());
  });
  await page.goto(url);
  return { page, errors };
}

export async function signIn(page: Page, token: string): Promise<void> {
  await page.fill("#token", token);
  await page.click("button[type=submit]");
}
