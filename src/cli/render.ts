/** `tollgate render`: writes the configuration in the words of another proxy, with all that it needs to decide. */
import type { Rendered } from "../render/files.js";
import { type Command, UsageError } from "./command.js";
import { envoyHelp, renderForEnvoy } from "./render-envoy.js";
import { outFolder, type Place, writeFiles } from "./render-files.js";
import { nginxHelp, renderForNginx } from "./render-nginx.js";

const proxies: Record<string, (args: string[], place: Place) => Rendered> = {
  nginx: renderForNginx,
  envoy: renderForEnvoy,
};

export const renderCommand: Command = {
  name: "render",
  summary: "Writes the configuration for another proxy: nginx or Envoy",
  help: `${nginxHelp}\n${envoyHelp}`,
  run(args) {
    const [proxy = "", ...rest] = args;
    if (!Object.hasOwn(proxies, proxy)) throw new UsageError("say first what to render for: nginx or envoy");
    let folder = "";
    const rendered = proxies[proxy]!(rest, (out) => {
      folder = outFolder(out);
      return folder;
    });
    return writeFiles(folder, rendered);
  },
};
