//! What the code under test logs, with virtual time and the node that logged it.
//!
//! A run collects the lines of its own thread: failing runs print them, and a run can demand that
//! nothing logged an ERROR.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Lines kept: the last ones of a run are what explains its failure. Of WARN and graver ones as many
/// again, the first ones: they are judged.
const LINES_MAX: usize = 20_000;

thread_local! {
    static PLACE: RefCell<Place> = RefCell::default();
}

#[derive(Default)]
struct Place {
    nanos: u64,
    node: Option<Rc<str>>,
    task: &'static str,
}

/// Sets the time that lines bear.
pub(crate) fn set_time(nanos: u64) {
    PLACE.with_borrow_mut(|place| place.nanos = nanos);
}

/// A task of `node` is being polled. Returns what was before, for [`leave`].
pub(crate) fn enter(node: Rc<str>, task: &'static str) -> (Option<Rc<str>>, &'static str) {
    PLACE.with_borrow_mut(|place| {
        (
            place.node.replace(node),
            std::mem::replace(&mut place.task, task),
        )
    })
}

pub(crate) fn leave(previous: (Option<Rc<str>>, &'static str)) {
    PLACE.with_borrow_mut(|place| (place.node, place.task) = previous);
}

/// `time node/task` of what runs now on this thread, for reports of panics.
pub fn current_place() -> String {
    PLACE.with_borrow(|place| {
        format!(
            "{:.6} {}/{}",
            place.nanos as f64 / 1e9,
            place.node.as_deref().unwrap_or("-"),
            place.task
        )
    })
}

/// One line of a log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// Virtual nanoseconds since the beginning.
    pub nanos: u64,
    /// The node that was running.
    pub node: String,
    /// Its level.
    pub level: Level,
    /// Module that logged.
    pub target: String,
    /// Spans, message and fields.
    pub text: String,
    /// The message alone.
    pub message: String,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>12.6} {:<8} {:<5} {} {}",
            self.nanos as f64 / 1e9,
            self.node,
            self.level,
            self.target,
            self.text
        )
    }
}

/// The lines of a run.
#[derive(Clone)]
pub struct Logs {
    level: Level,
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    last: VecDeque<LogLine>,
    grave: Vec<LogLine>,
}

impl Logs {
    /// Collects lines of `level` and graver.
    pub fn new(level: Level) -> Logs {
        Logs {
            level,
            lines: Arc::default(),
        }
    }

    /// Runs `body` with its log lines collected here.
    pub fn collect<T>(&self, body: impl FnOnce() -> T) -> T {
        let filter = tracing_subscriber::filter::LevelFilter::from_level(self.level);
        let layer = Collector(self.lines.clone()).with_filter(filter);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, body)
    }

    /// The lines so far, oldest first; at most the last 20,000.
    pub fn lines(&self) -> Vec<LogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.last.iter().cloned().collect()
    }

    /// The lines of level WARN and ERROR, from the first.
    pub fn grave(&self) -> Vec<LogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.grave.clone()
    }

    /// Lines of `level` and graver.
    pub fn of_level(&self, level: Level) -> Vec<LogLine> {
        let mut lines = self.lines();
        lines.retain(|line| line.level <= level);
        lines
    }
}

struct Collector(Arc<Mutex<Lines>>);

/// A span's fields as text.
struct SpanText(String);

struct Text<'a>(&'a mut String);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = if field.name() == "message" {
            write!(self.0, " {value:?}")
        } else {
            write!(self.0, " {}={value:?}", field.name())
        };
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut text = attributes.metadata().name().to_owned();
            attributes.record(&mut Text(&mut text));
            span.extensions_mut().insert(SpanText(text));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(text) = span.extensions_mut().get_mut::<SpanText>()
        {
            values.record(&mut Text(&mut text.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = String::new();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<SpanText>() {
                let _ = write!(text, "{{{}}}", fields.0);
            }
        }
        event.record(&mut Text(&mut text));
        let mut message = Message(String::new());
        event.record(&mut message);
        let (nanos, node) = PLACE.with_borrow(|place| {
            let node = place.node.as_deref().unwrap_or("-").to_owned();
            (place.nanos, node)
        });
        let line = LogLine {
            nanos,
            node,
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            text: text.trim().to_owned(),
            message: message.0,
        };
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if line.level <= Level::WARN && lines.grave.len() < LINES_MAX {
            lines.grave.push(line.clone());
        }
        if lines.last.len() == LINES_MAX {
            lines.last.pop_front();
        }
        lines.last.push_back(line);
    }
}
