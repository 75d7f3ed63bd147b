/** Builds the dashboard into dist/dashboard, from where the control listener serves it. */
import { defineConfig, type Plugin } from "vite";
import { writeDependencies } from "../build/dependencies.js";

/** The modules in the bundle, for the Makefile: some are shared with the service. */
const dependencies: Plugin = {
  name: "dependencies",
  generateBundle() {
    writeDependencies("dashboard", [...this.getModuleIds()].filter((id) => id.startsWith("/")).map(withoutQuery));
  },
};

const withoutQuery = (id: string) => id.replace(/\?.*$/, "");

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  logLevel: "warn",
  plugins: [dependencies],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../dist/dashboard",
    emptyOutDir: true,
    target: "es2022",
    // Inline data: URLs of scripts and fonts would violate the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
