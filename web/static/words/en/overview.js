// The words of the overview, and of the last day.

/** @type {Record<string, string>} */
export const WORDS = {
  "overview.gpus": "GPUs",
  "overview.held": "GPUs held",
  "overview.use": "{use} % in use",
  "overview.running": "Running",
  "overview.waiting": "Waiting",
  "overview.heldback": "and {count} held",
  "overview.failed": "Failed in 24 h",
  "overview.slots": "no GPUs · {held} of {slots} slots taken",
  "overview.next": "Next in the queue",
  "overview.none-waiting": "Nothing waits.",
  "overview.needs": "Needs you",
  "overview.nothing": "Nothing does.",
  "overview.mine": "My running tasks",
  "overview.none-running": "None of yours runs.",
  "overview.all": "All of them",
  "day.title": "GPUs held in 24 hours",
  "day.label": "{mean} % of all GPUs held on average",
  "day.held": "{held} held",
  "day.unknown": "not known",
  "day.none": "No node has GPUs.",
  "day.hours": "By the hour",
  "chart.lost": "The curve did not come; it is asked for again in a moment.",
};
