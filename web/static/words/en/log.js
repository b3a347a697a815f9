// The words of logs.

/** @type {Record<string, string>} */
export const WORDS = {
  "log.none": "There is no log yet.",
  "log.empty": "The log is empty.",
  "log.following": "Following",
  "log.at-end": "Complete",
  "log.paused": "Paused · follow",
  "log.paused-new": "Paused, {count} new lines · follow",
  "log.follow": "Follow",
  "log.first": "First error",
  "log.last": "Last traceback",
  "log.search": "Search the log",
  "log.searching": "Searching… {percent}",
  "log.found": "{count} {n:line|lines}",
  "log.found-many": "The first {count} lines",
  "log.start": "Start",
  "log.end": "End",
  "log.wrap": "Wrap",
  "log.download": "Download",
  "log.link": "Link to this line",
  "log.no-fault": "No line tells of an error.",
};
