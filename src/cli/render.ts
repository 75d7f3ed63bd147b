/** `tollgate render`: writes the configuration for nginx or Envoy. */
import { type Command, readChoice } from "./command.js";
import { envoyHelp, renderForEnvoy } from "./render/envoy.js";
import { nginxHelp, renderForNginx } from "./render/nginx.js";

export const command: Command = {
  help: `${nginxHelp}\n${envoyHelp}`,
  run([proxy = "", ...rest]) {
    const isNginx = readChoice("render", proxy, ["nginx", "envoy"]) === "nginx";
    return isNginx ? renderForNginx(rest) : renderForEnvoy(rest);
  },
};
