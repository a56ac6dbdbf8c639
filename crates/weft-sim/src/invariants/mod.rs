//! What must hold in every run, one file each. [`Watch`] looks at a cluster while it runs; the others
//! judge at its end.

pub mod acknowledged_survives;
pub mod copies_equal;
pub mod digest_equal;
pub mod epochs_rise;
pub mod errors_are_errnos;
pub mod leases_exclude;
pub mod losses_named;
pub mod lost_locks_told;
pub mod no_two_lead;
pub mod no_two_serve;
pub mod no_unexpected_logs;
pub mod objects_named;
pub mod one_tree;
pub mod reads_linearize;

use crate::cluster::builder::Cluster;
use digest_equal::Digests;
use epochs_rise::Epochs;
use no_two_lead::Reigns;
use std::cell::RefCell;
use std::collections::BTreeMap;
use weft_types::Sn;

/// What is watched all through a run. Keeps the first thing that may not be.
#[derive(Default)]
pub struct Watch {
    epochs: RefCell<Epochs>,
    /// By group.
    digests: RefCell<BTreeMap<usize, Digests>>,
    reigns: RefCell<BTreeMap<usize, Reigns>>,
    broken: RefCell<Option<String>>,
}

impl Watch {
    /// Looks at who leads now.
    pub fn look_who_leads(&self, cluster: &Cluster) {
        for group in 0..cluster.groups() {
            let mut reigns = self.reigns.borrow_mut();
            let judged = reigns.entry(group).or_default();
            let judged = judged.judge(&cluster.stances(group));
            self.note(cluster.world.now().as_secs_f64(), judged);
        }
    }

    /// Looks at the cluster as it is now.
    pub fn look(&self, cluster: &Cluster) {
        self.look_who_leads(cluster);
        let digests_equal = |group: usize| {
            let mut digests = self.digests.borrow_mut();
            digest_equal::check(cluster, group, digests.entry(group).or_default())
        };
        let all = no_two_serve::check(cluster)
            .and_then(|()| leases_exclude::check(cluster))
            .and_then(|()| epochs_rise::check(cluster, &mut self.epochs.borrow_mut()))
            .and_then(|()| (0..cluster.groups()).try_for_each(digests_equal));
        self.note(cluster.world.now().as_secs_f64(), all);
    }

    /// What a metadata server that starts has found on its disk.
    pub fn recovered(&self, seconds: f64, group: usize, found: Result<(Sn, u128), String>) {
        let judged = found.and_then(|(sn, digest)| {
            let mut digests = self.digests.borrow_mut();
            digests.entry(group).or_default().found(sn, digest)
        });
        self.note(seconds, judged);
    }

    fn note(&self, seconds: f64, judged: Result<(), String>) {
        if let Err(why) = judged {
            let mut broken = self.broken.borrow_mut();
            broken.get_or_insert_with(|| format!("at {seconds:.6}: {why}"));
        }
    }

    /// The first thing that was not as it must be.
    ///
    /// # Errors
    /// That.
    pub fn verdict(&self) -> Result<(), String> {
        self.broken.borrow().clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;
    use crate::cluster::run::{Options, draw_shape};
    use std::rc::Rc;
    use weft_client::{Client, CreateFlags, Cred, OpenFlags};

    /// Starts a cluster that holds one file, and breaks it.
    fn broken<T: 'static>(
        seed: u64,
        breaking: impl AsyncFnOnce(Rc<Cluster>) -> T + 'static,
    ) -> Result<T, String> {
        let world = World::new(seed);
        let shape = draw_shape(&world, &Options::default());
        let cluster = Rc::new(Cluster::new(&world, shape));
        world.block_on(async move {
            cluster.start().await?;
            let env = cluster.world.node("writer").env();
            let client = Client::connect(env, cluster.client_settings("writer")).await;
            let client = client.map_err(|error| error.to_string())?;
            let flags = CreateFlags {
                exclusive: true,
                open: OpenFlags {
                    write: true,
                    sync: true,
                    ..OpenFlags::default()
                },
            };
            let wrote = async {
                let (root, cred) = (client.root(), Cred::default());
                let (_, file) = client.create(&cred, root, b"f", 0o600, flags).await?;
                client.write(file, 0, vec![7; 9_000].into(), false).await?;
                client.release(file, None).await?;
                client.close().await
            };
            wrote.await.map_err(|error| error.to_string())?;
            cluster.look();
            cluster.verdict()?;
            copies_equal::check(&cluster).await?;
            Ok(breaking(cluster).await)
        })
    }

    #[test]
    fn a_copy_that_differs_is_found() {
        let found = broken(1, async |cluster: Rc<Cluster>| {
            let objects = |path: &std::path::Path| {
                path.components().any(|part| part.as_os_str() == "objects")
            };
            let hit = cluster.data[0][1].disk().flip_bit("/srv/data", objects);
            (hit, copies_equal::check(&cluster).await)
        });
        let (hit, compared) = found.unwrap();
        assert!(hit.is_some());
        assert!(compared.unwrap_err().contains("differ"));
    }

    #[test]
    fn a_metadata_server_whose_disk_is_empty_founds_nothing() {
        let found = broken(2, async |cluster: Rc<Cluster>| {
            cluster.stop_meta(0, true);
            cluster.wipe_meta(0);
            cluster.start_meta(0);
            cluster.world.sleep(std::time::Duration::from_secs(1)).await;
            (cluster.take_exits(), cluster.verdict())
        });
        let (exits, verdict) = found.unwrap();
        let [(_, why)] = &exits[..] else {
            panic!("it goes on: {exits:?}");
        };
        assert!(why.contains("has not been founded"), "{why}");
        assert!(verdict.unwrap_err().contains("end with batch 0"));
    }

    #[test]
    fn a_metadata_server_that_comes_back_whole_is_not() {
        let found = broken(2, async |cluster: Rc<Cluster>| {
            cluster.stop_meta(0, true);
            cluster.start_meta(0);
            let ready = cluster.ready().await;
            cluster.look();
            ready.and_then(|()| cluster.verdict())
        });
        assert_eq!(found, Ok(Ok(())));
    }
}
