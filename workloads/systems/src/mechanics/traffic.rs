//! Parts of closed forms.

use epochcost_channels::Traffic;

/// Returns the sum of parts.
pub(crate) fn sum(parts: impl IntoIterator<Item = Traffic>) -> Traffic {
    let mut total = Traffic::default();
    parts.into_iter().for_each(|part| total += part);
    total
}

/// Traffic of so many puts of `bytes` each.
pub(crate) fn puts(count: u64, bytes: u64) -> Traffic {
    Traffic {
        puts: count,
        bytes_up: count * bytes,
        ..Traffic::default()
    }
}

/// Traffic of so many gets of `bytes` each.
pub(crate) fn gets(count: u64, bytes: u64) -> Traffic {
    Traffic {
        gets: count,
        bytes_down: count * bytes,
        ..Traffic::default()
    }
}

/// Traffic of messages of `bytes` each, and of how often they are taken.
pub(crate) fn messages(messages: u64, deliveries: u64, bytes: u64) -> Traffic {
    Traffic {
        messages,
        deliveries,
        bytes_up: messages * bytes,
        bytes_down: deliveries * bytes,
        ..Traffic::default()
    }
}

/// Traffic of so many commands in a store.
pub(crate) fn in_store(count: u64) -> Traffic {
    Traffic {
        in_store: count,
        ..Traffic::default()
    }
}
