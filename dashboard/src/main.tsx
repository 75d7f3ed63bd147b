/** The dashboard of a Tollgate service. */
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/views.css";
import { render } from "preact";
import { App } from "./app.js";
import { applyTheme } from "./theme.js";

applyTheme();
render(<App />, document.getElementById("app") as HTMLElement);
