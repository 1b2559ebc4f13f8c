/** The documentation of a problem code, from the server: meaning, example and fix. */

import { useResource } from "../api/resource.ts";
import type { ProblemPage as Page } from "../api/types.gen.ts";
import { Dialog } from "../parts/dialog.tsx";
import { inlineCode } from "../parts/inline-code.tsx";
import { Loaded } from "../parts/states.tsx";
import "./problem-page.css";

export function ProblemPage({ code, onClose }: { code: string; onClose: () => void }) {
  const page = useResource<Page>(`/problems/${code}`);
  return (
    <Dialog title={code} wide onClose={onClose}>
      <div class="problem-page">
        <Loaded of={page}>{({ text }) => markdown(text.slice(code.length))}</Loaded>
      </div>
    </Dialog>
  );
}

/** The Markdown of these pages: paragraphs, fenced code and inline code. */
function markdown(text: string) {
  return text.split(/^```.*\n/m).map((part, place) =>
    place % 2 ? (
      <pre key={place}>{part}</pre>
    ) : (
      part
        .split(/\n{2,}/)
        .filter((paragraph) => paragraph.trim())
        .map((paragraph) => <p key={paragraph}>{inlineCode(paragraph.replaceAll("**", ""))}</p>)
    ),
  );
}
