/** The service image is reproducible: a build of the same commit without any cached step gives the same layers and settings. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { fromRoot } from "../../build/paths.js";
import { podman } from "./support/containers.js";
import { describeWith } from "./support/needs.js";
import { SERVICE } from "./support/stack.js";

const again = SERVICE.replace(/:test$/, ":again");

describeWith(["containers"], "the service image", () => {
  afterAll(() => podman("rmi", "--force", again));

  it("has the same layers and settings when it is built again", async () => {
    await promisify(execFile)(fromRoot("deploy/test/images.sh"), ["tollgate"], {
      env: { ...process.env, TAG: "again", OPTIONS: "--no-cache" },
      timeout: 280_000,
    });
    expect(await content(again)).toEqual(await content(SERVICE));
  });
});

/** Without the history, to which buildah adds ids of its own, and the labels, which it takes from its cache when only the commit differs. */
async function content(name: string) {
  const [{ RootFS, Config, Healthcheck }] = JSON.parse(await podman("image", "inspect", name));
  return { layers: RootFS.Layers, healthcheck: Healthcheck, settings: { ...Config, Labels: undefined } };
}
