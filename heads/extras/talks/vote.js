// On stage, with ?present=1&vote=1: the room votes before the answers are shown.
heads.kept.push("vote");
const bar = document.createElement("div");
bar.id = "vote";
document.querySelector("#verdict")?.before(bar);
const draw = () => {
  document.body.classList.remove("revealed");
  const names = [...new Set([...document.querySelectorAll("#lanes .rows > span:not(.more)")]
    .map((one) => one.textContent))];
  bar.replaceChildren("What do you say?");
  for (const name of names) {
    const button = document.createElement("button");
    let votes = 0;
    const label = () => { button.textContent = `${name} ${votes}`; };
    button.addEventListener("click", () => { votes += 1; label(); });
    label(); bar.append(button);
  }
  const reveal = document.createElement("button");
  reveal.textContent = "Reveal";
  reveal.addEventListener("click", () => document.body.classList.add("revealed"));
  bar.append(reveal);
};
let last = "";
const look = () => {
  const isOn = new URLSearchParams(location.search).has("vote");
  if (document.body.classList.contains("vote") !== isOn) document.body.classList.toggle("vote", isOn);
  const now = document.querySelector("#lanes")?.textContent || "";
  if (isOn && now !== last) { last = now; draw(); }
};
new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributes: true });
look();
