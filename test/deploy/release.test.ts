/** The release process: changelog, version, tag, SBOMs and workflows. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { libraryLock } from "../../build/library/lock.js";
import { fromRoot } from "../../build/paths.js";
import { notesOf, promote, requireNext } from "../../build/release/changelog.js";
import { neutral } from "../../build/release/clean-clone.js";
import { prepareRelease, type ReleaseOptions } from "../../build/release/prepare.js";
import { describeWith } from "./support/needs.js";
import { goTool, pythonTool, tool } from "./support/tools.js";

const changelog = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 1.0.0 (2026-01-01)\n\n- The first.\n";

describe("the changelog", () => {
  it("gives the notes of a version, and an error for an unknown or empty one", () => {
    expect(notesOf(changelog, "1.0.0")).toBe("- The first.");
    expect(notesOf(changelog, "Unreleased")).toBe("### Added\n\n- A thing.");
    expect(() => notesOf(changelog, "1.0")).toThrow('there is no section "## 1.0"');
    expect(() => notesOf("## Unreleased\n\n## 1.0.0\n- x", "Unreleased")).toThrow("lists no change");
  });

  it("gets a section for a new version, and an empty one for what follows", () => {
    const after = promote(changelog, "1.1.0", "2026-02-01");
    expect(notesOf(after, "1.1.0")).toBe("### Added\n\n- A thing.");
    expect(() => notesOf(after, "Unreleased")).toThrow("lists no change");
    expect(() => promote(changelog, "1.0.0", "2026-02-01")).toThrow("1.0.0 is already listed");
  });

  it("is followed by higher versions only", () => {
    for (const next of ["1.2.4", "1.3.0", "2.0.0"]) expect(() => requireNext("1.2.3", next, false)).not.toThrow();
    for (const next of ["1.2.3", "1.2.2", "1.1.9", "0.9.9"])
      expect(() => requireNext("1.2.3", next, false)).toThrow("must be above 1.2.3");
    for (const next of ["1.2", "v1.2.4", "1.2.4-rc1", ""])
      expect(() => requireNext("1.2.3", next, false)).toThrow("expected MAJOR.MINOR.PATCH");
    expect(() => requireNext("0.1.0", "0.1.0", true)).not.toThrow();
  });
});

describe("make release", () => {
  const root = mkdtempSync(join(tmpdir(), "tollgate-release-"));
  const git = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
  const options: ReleaseOptions = {
    version: "1.1.0",
    root,
    date: "2026-02-01",
    checks: [["test", "-e", "package.json"]],
    derive: [["cp", "package.json", "derived.json"]],
    log: () => {},
  };
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  beforeEach(() => {
    rmSync(join(root, ".git"), { recursive: true, force: true });
    writeFileSync(join(root, "package.json"), `${JSON.stringify({ name: "x", version: "1.0.0" }, null, 2)}\n`);
    writeFileSync(join(root, "CHANGELOG.md"), changelog);
    git("init", "--quiet");
    git("config", "user.email", "test@example.com");
    git("config", "user.name", "test");
    git("config", "commit.gpgsign", "false");
    git("config", "tag.gpgsign", "false");
    git("add", "--all");
    git("commit", "--quiet", "--message", "first");
    git("tag", "v1.0.0");
  });

  it("commits the version, the changelog and derived files, and tags them with the notes", () => {
    prepareRelease(options);
    expect(JSON.parse(readFileSync(join(root, "derived.json"), "utf8"))).toMatchObject({ version: "1.1.0" });
    expect(readFileSync(join(root, "CHANGELOG.md"), "utf8")).toContain("## 1.1.0 (2026-02-01)");
    expect(git("status", "--porcelain")).toBe("");
    expect(git("tag", "--list", "--format=%(contents)", "v1.1.0")).toContain("### Added\n\n- A thing.");
    expect(git("rev-parse", "v1.1.0^{commit}")).toBe(git("rev-parse", "HEAD"));
  });

  it("checks a clean clone of exactly the commit that it tags", () => {
    writeFileSync(join(root, ".gitignore"), "untracked\n.cache\n");
    git("add", "--all");
    git("commit", "--quiet", "--message", "ignore");
    writeFileSync(join(root, "untracked"), "");
    mkdirSync(join(root, ".cache/tool"), { recursive: true });
    writeFileSync(join(root, ".cache/state"), "");
    const seen = join(root, ".cache/seen");
    const look = `test ! -e untracked && test ! -e .cache/state && test -d .cache/tool && git status --porcelain && \
      grep '"version": "1.1.0"' package.json derived.json && git rev-parse HEAD >${seen} && test -z "$(git tag --list v1.1.0)"`;
    prepareRelease({ ...options, checks: [["sh", "-ec", look]] });
    expect(git("rev-parse", "v1.1.0^{commit}")).toBe(readFileSync(seen, "utf8").trim());
  });

  it("lets no variable select or skip checks", () => {
    const env = { PATH: "/bin", TOLLGATE_DEPLOY: "none", TOLLGATE_WITHOUT_ENVOY: "1", TOLLGATE_ENVOY: "/envoy" };
    expect(neutral({ ...env, MAKEFLAGS: "i", VITEST: "1", SCENARIOS: "x", GIT_DIR: "/x" })).toEqual({
      PATH: "/bin",
      TOLLGATE_ENVOY: "/envoy",
    });
    const release = readFileSync(fromRoot("build/release.ts"), "utf8");
    expect(release).not.toMatch(/process\.env/);
    expect(release).toContain('["env", "TOLLGATE_DEPLOY=all", ".ci/run"]');
  });

  it("makes no tag if a check fails, says how to go on, and continues after the fix", () => {
    const checks: ReleaseOptions["checks"] = [["test", "-e", "fixed"]];
    const before = git("rev-parse", "HEAD");
    expect(() => prepareRelease({ ...options, checks })).toThrow(/has no tag.*\n.*commit a fix.*\n.*git reset --hard/);
    expect(git("tag")).toBe("v1.0.0");
    expect(git("log", "-1", "--format=%s")).toBe("Release 1.1.0");
    expect(git("rev-parse", "HEAD~1")).toBe(before);

    writeFileSync(join(root, "fixed"), "");
    git("add", "--all");
    git("commit", "--quiet", "--message", "fix");
    prepareRelease({ ...options, checks });
    expect(git("rev-parse", "v1.1.0^{commit}")).toBe(git("rev-parse", "HEAD"));
    expect(git("log", "-1", "--format=%s")).toBe("fix");
    rmSync(join(root, "fixed"));
  });

  it.each<[string, Partial<ReleaseOptions>, () => void]>([
    ["the version is too low", { version: "1.0.0" }, () => {}],
    ["there are uncommitted changes", {}, () => writeFileSync(join(root, "new.txt"), "")],
    ["the tag exists", {}, () => git("tag", "v1.1.0")],
  ])("changes nothing if %s", (_, changed, arrange) => {
    arrange();
    const before = [git("rev-parse", "HEAD"), git("tag"), git("status", "--porcelain")];
    expect(() => prepareRelease({ ...options, ...changed })).toThrow();
    expect([git("rev-parse", "HEAD"), git("tag"), git("status", "--porcelain")]).toEqual(before);
    rmSync(join(root, "new.txt"), { force: true });
  });
});

describe("the SBOMs", () => {
  interface Lock {
    version: string;
    packages: Record<string, { version: string; dev?: boolean; devOptional?: boolean }>;
  }
  const folder = mkdtempSync(join(tmpdir(), "tollgate-sbom-"));
  beforeAll(() => {
    const { status, output } = tool(fromRoot("build/sbom.sh"), [join(folder, "tollgate"), join(folder, "limiter")]);
    expect(status, output).toBe(0);
  });

  it.each([
    ["tollgate", (): Lock => JSON.parse(readFileSync(fromRoot("package-lock.json"), "utf8"))],
    ["limiter", (): Lock => libraryLock()],
  ])("of %s lists exactly the packages of the lock file that it needs", (name, lockOf) => {
    const sbom = JSON.parse(readFileSync(join(folder, name), "utf8")) as {
      bomFormat: string;
      components: { purl: string }[];
      metadata: { component: { version: string } };
    };
    const lock = lockOf();
    const needed = Object.entries(lock.packages)
      .filter(([path, { dev, devOptional }]) => path !== "" && dev !== true && devOptional !== true)
      .map(([path, { version }]) => `pkg:npm/${path.split("node_modules/").at(-1)!.replace("@", "%40")}@${version}`);
    expect(sbom.bomFormat).toBe("CycloneDX");
    expect(sbom.metadata.component.version).toBe(lock.version);
    expect(sbom.components.map(({ purl }) => purl.replace(/\?.*/, "")).sort()).toEqual(needed.sort());
  });
});

describeWith(["tools"], "the workflows", () => {
  it("pass zizmor: pinned actions, minimal permissions, no injection", () => {
    const { status, output } = pythonTool("lint", "zizmor", "--offline", "--no-progress", ".github");
    expect(status, output).toBe(0);
  });
});

describeWith(["actionlint"], "actionlint", () => {
  it("accepts the workflows", () => {
    const { status, output } = goTool("actionlint")();
    expect(status, output).toBe(0);
  });
});
