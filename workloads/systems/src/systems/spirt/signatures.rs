//! Signatures: each peer signs the average that it shares, and every other refuses one that
//! is not signed by that peer for this epoch and round.
//!
//! The paper asks for trust between peers; the published functions exchange RSA keys at the
//! start and sign a constant. Here `init_peer` draws an Ed25519 key, whose secret stays in the
//! peer's own store, and `authenticate` of the peer's first round fetches every peer's public key:
//! later keys are not accepted. A peer signs
//! its rank, the epoch, the round and the SHA-256 digest of its average, so that neither an
//! average nor a signature can be used a second time or for another peer. The average is
//! made in the store; its function fetches it once to sign it. Keys, signatures and that fetch
//! count as state. A signature says who sent an average, not that it is honest: that is
//! what robust rules are for.

use epochcost_channels::Payload;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;
use super::stages::shared_key;
use crate::contract::arithmetic;
use crate::{AttackKind, Result, SystemError, Vector, World};

const PRIVATE_KEY: &str = "private_key";
const PUBLIC_KEY: &str = "public_key";
/// Public keys of all peers, by rank.
const TRUSTED: &str = "trusted_peers";
/// What a peer writes at its start, so that nothing of an earlier trial is left.
pub(super) const REMEMBERED: [&str; 3] = [PRIVATE_KEY, PUBLIC_KEY, TRUSTED];

/// Bytes of a key, secret or public.
const KEY_BYTES: usize = 32;
/// What a signature is for: no other message of a peer begins so.
const PURPOSE: &[u8] = b"epochcost/spirt/average/1";
/// Readings of a vector that take as long as its digest: SHA-256 makes about 1.1 GB/s on one core of
/// an AMD EPYC (OpenSSL, 2026-11-22), of vectors a vCPU reads 11 GB/s in the profiles.
const DIGEST_READINGS: usize = 10;

/// Whether peers sign their averages, and what follows from one that is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Signatures {
    /// Averages are not signed.
    #[default]
    None,
    /// The mean is of the averages that are not refused.
    LeaveOut,
    /// The function fails, and with it the trial.
    End,
}

/// Returns the key of a peer's signature of a round, in its store.
pub(super) fn signature_key(round: usize) -> String {
    format!("signature_{round}")
}

fn failed(what: &str) -> SystemError {
    SystemError::malformed("a peer's key", what)
}

fn drawn() -> Result<[u8; KEY_BYTES]> {
    let mut secret = [0; KEY_BYTES];
    let random = SystemRandom::new().fill(&mut secret);
    random.map_err(|_| failed("the system gives no random numbers"))?;
    Ok(secret)
}

fn pair(secret: &[u8]) -> Result<Ed25519KeyPair> {
    Ed25519KeyPair::from_seed_unchecked(secret).map_err(|_| failed("it is no Ed25519 key"))
}

/// Draws the peer's key. The secret goes into its own store and nowhere else.
pub(super) async fn make_key(world: &World) -> Result<()> {
    let store = world.state.store(world.rank())?;
    let secret = drawn()?;
    let public = pair(&secret)?.public_key().as_ref().to_vec();
    store.set(PRIVATE_KEY, secret.to_vec().into()).await?;
    Ok(store.set(PUBLIC_KEY, public.into()).await?)
}

/// Fetches every peer's public key in the peer's first round; these are trusted from here on.
pub(super) async fn trust(world: &World, settings: &Settings) -> Result<()> {
    let store = world.state.store(world.rank())?;
    let has_joined = world.rank() >= settings.first_peers(world.workers());
    let is_new = has_joined && store.get(TRUSTED).await?.is_none();
    if settings.round_number(&world.task) > 0 && !is_new {
        return Ok(());
    }
    let mut keys = Vec::with_capacity(KEY_BYTES * world.workers());
    for peer in 0..world.workers() {
        let key = world.state.store(peer)?.expect(PUBLIC_KEY).await?;
        let key = key.bytes()?;
        if key.len() != KEY_BYTES {
            return Err(failed("it has another length than a public key"));
        }
        keys.extend_from_slice(key);
    }
    Ok(store.set(TRUSTED, keys.into()).await?)
}

/// What is signed: peer, epoch and round, little-endian, and the digest of the average.
fn statement(peer: usize, epoch: usize, round: usize, average: &Payload) -> Vec<u8> {
    let mut statement = PURPOSE.to_vec();
    for number in [peer, epoch, round] {
        statement.extend_from_slice(&(number as u64).to_le_bytes());
    }
    arithmetic::note(DIGEST_READINGS, (average.len() / 4) as usize);
    match average {
        Payload::Bytes(bytes) => statement.extend_from_slice(digest(&SHA256, bytes).as_ref()),
        // Of an average of which only the size exists, that is what can be signed.
        sized => statement.extend_from_slice(&sized.len().to_le_bytes()),
    }
    statement
}

/// Signs the average that this peer shares.
pub(super) async fn sign(world: &World, settings: &Settings) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    let round = settings.round_number(&world.task);
    let store = world.state.store(rank)?;
    let average = store.expect(&shared_key(settings, round)).await?;
    let mut secret = store.expect(PRIVATE_KEY).await?.bytes()?.to_vec();
    let attack = world.task.job.attack.as_ref();
    let is_attacker = attack.is_some_and(|attack| {
        attack.kind == AttackKind::WrongKey && attack.is_by(rank, epoch, world.workers())
    });
    if is_attacker {
        secret = drawn()?.to_vec();
    }
    let signature = pair(&secret)?.sign(&statement(rank, epoch, round, &average));
    let signature = signature.as_ref().to_vec();
    Ok(store.set(&signature_key(round), signature.into()).await?)
}

/// Returns the public keys of all peers, by rank.
pub(super) async fn trusted(world: &World) -> Result<Vec<u8>> {
    let store = world.state.store(world.rank())?;
    Ok(store.expect(TRUSTED).await?.bytes()?.to_vec())
}

/// Whether `average` is signed by `peer` for the epoch and round of the task.
pub(super) async fn is_signed(
    world: &World,
    settings: &Settings,
    trusted: &[u8],
    peer: usize,
    average: &Payload,
) -> Result<bool> {
    let round = settings.round_number(&world.task);
    let store = world.state.store(peer)?;
    let Some(signature) = store.get(&signature_key(round)).await? else {
        return Ok(false);
    };
    let statement = statement(peer, world.task.epoch, round, average);
    Ok(verifies(trusted, peer, &statement, signature.bytes()?))
}

fn verifies(trusted: &[u8], peer: usize, statement: &[u8], signature: &[u8]) -> bool {
    let key = trusted.get(peer * KEY_BYTES..(peer + 1) * KEY_BYTES);
    key.is_some_and(|key| {
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(statement, signature).is_ok()
    })
}

/// Returns the peers whose averages are not refused, and these, in their order.
///
/// # Errors
/// When one is refused and training is to end, or when none is left.
pub(super) fn admitted(
    world: &World,
    settings: &Settings,
    peers: Vec<usize>,
    averages: Vec<Option<Vector>>,
) -> Result<(Vec<usize>, Vec<Vector>)> {
    let mut refused = Vec::new();
    let mut kept = (Vec::new(), Vec::new());
    for (peer, average) in peers.into_iter().zip(averages) {
        match average {
            Some(average) => kept.extend([(peer, average)]),
            None => refused.push(peer.to_string()),
        }
    }
    if refused.is_empty() {
        return Ok(kept);
    }
    let (epoch, round) = (world.task.epoch, settings.round_number(&world.task));
    let refused = refused.join(", ");
    if settings.signatures == Signatures::End || kept.0.is_empty() {
        let what = format!("the average of peers {refused}");
        let reason = format!(
            "it is not signed with their keys for epoch {epoch}, round {round}; to go on \
                 without it, set signatures: leave_out"
        );
        return Err(SystemError::malformed(what, reason));
    }
    // One peer records for all.
    if kept.0.first() == Some(&world.rank()) {
        world.warn(format!(
            "epoch {epoch}, round {round}: the averages of peers {refused} are not signed with \
             their keys, and are left out"
        ));
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Two peers' secrets, and their public keys.
    fn peers() -> ([Ed25519KeyPair; 2], Vec<u8>) {
        let pairs = [(); 2].map(|()| pair(&drawn().unwrap()).unwrap());
        let keys = pairs
            .iter()
            .flat_map(|pair| pair.public_key().as_ref().to_vec());
        let keys = keys.collect();
        (pairs, keys)
    }

    fn average(value: u8) -> Payload {
        vec![value; 16].into()
    }

    #[test]
    fn a_signature_is_of_one_peer_epoch_round_and_average() {
        let (pairs, keys) = peers();
        let signature = pairs[1].sign(&statement(1, 2, 5, &average(3)));
        let is_valid = |peer, epoch, round, value| {
            let statement = statement(peer, epoch, round, &average(value));
            verifies(&keys, peer, &statement, signature.as_ref())
        };
        assert!(is_valid(1, 2, 5, 3));
        // Another peer's, a replay in the next epoch or round, and a changed average.
        for (peer, epoch, round, value) in [(0, 2, 5, 3), (1, 3, 5, 3), (1, 2, 6, 3), (1, 2, 5, 4)]
        {
            assert!(
                !is_valid(peer, epoch, round, value),
                "{peer} {epoch} {round} {value}"
            );
        }
    }

    #[test]
    fn what_is_no_signature_and_who_is_no_peer_are_refused() {
        let (pairs, keys) = peers();
        let statement = statement(0, 0, 0, &average(1));
        let signature = pairs[0].sign(&statement);
        assert!(verifies(&keys, 0, &statement, signature.as_ref()));
        for cut in [0, 1, 63] {
            assert!(!verifies(&keys, 0, &statement, &signature.as_ref()[..cut]));
        }
        assert!(!verifies(&keys, 2, &statement, signature.as_ref()));
        assert!(!verifies(&keys[..31], 0, &statement, signature.as_ref()));
    }

    /// Where only sizes exist, another size is another statement.
    #[test]
    fn sizes_are_signed_where_there_are_no_values() {
        let phantom = |bytes| statement(0, 0, 0, &Payload::Phantom { bytes });
        assert_ne!(phantom(4), phantom(8));
    }
}
