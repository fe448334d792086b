import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.metadata.VersionRange;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.VoterSet;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints the image of a metadata log as JSON: {@code java Image END LAST [SNAPSHOT] LOG...}.
 *
 * <p>END is the end offset of SNAPSHOT, -1 without one, and LAST the offset of the last record
 * that counts, -1 for all. The object has a list for each kind of lines of {@code kdump metadata
 * --format json}, with the same fields, and the offsets at which Kafka fails ({@code faults}).
 */
final class Image {
    private static final Pattern OFFSET = Pattern.compile("from offset (\\d+)");

    private final Map<String, List<Map<String, Object>>> lines = new LinkedHashMap<>();
    private final List<Long> faults = new ArrayList<>();
    private final MetadataRecordSerde serde = new MetadataRecordSerde();
    private final long last;
    private MetadataImage image = MetadataImage.EMPTY;
    private VoterSet voters;
    private int kraftVersion;

    private Image(long last) {
        this.last = last;
    }

    public static void main(String[] arguments) throws Exception {
        long end = Long.parseLong(arguments[0]);
        long last = Long.parseLong(arguments[1]);
        var printed = new Image(last);
        List<String> files = List.of(arguments).subList(2, arguments.length);
        if (end >= 0) {
            printed.snapshot(files.get(0));
            files = files.subList(1, files.size());
        }
        printed.logs(files, Math.max(end, 0));
        printed.print();
    }

    private void snapshot(String path) throws Exception {
        var delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        try (var records = FileRecords.open(new File(path), false)) {
            for (RecordBatch batch : records.batches()) {
                if (batch.isControlBatch()) {
                    control(batch, Long.MAX_VALUE);
                    continue;
                }
                for (Record record : batch) {
                    delta.replay(decode(record).message());
                }
            }
        }
        delta.finishSnapshot();
        image = delta.apply(MetadataProvenance.EMPTY);
    }

    private void logs(List<String> paths, long start) throws Exception {
        var loader = new MetadataBatchLoader(
                new LogContext(), Time.SYSTEM, this::fault, (delta, built, manifest) -> image = built,
                SupportedConfigChecker.TRUE);
        loader.resetToImage(image);
        for (String path : paths) {
            try (var records = FileRecords.open(new File(path), false)) {
                for (RecordBatch batch : records.batches()) {
                    if (batch.isControlBatch()) {
                        if (batch.baseOffset() >= start) {
                            control(batch, last < 0 ? Long.MAX_VALUE : last);
                        }
                    } else {
                        load(loader, batch, start);
                    }
                }
            }
        }
    }

    private void load(MetadataBatchLoader loader, RecordBatch batch, long start) {
        List<ApiMessageAndVersion> messages = new ArrayList<>();
        long base = -1;
        for (Record record : batch) {
            if (record.offset() < start || (last >= 0 && record.offset() > last)) {
                continue;
            }
            try {
                messages.add(decode(record));
                base = base < 0 ? record.offset() : base;
            } catch (RuntimeException cannotDecode) {
                faults.add(record.offset());
            }
        }
        if (!messages.isEmpty()) {
            loader.loadBatch(
                    Batch.data(base, batch.partitionLeaderEpoch(), 0, batch.sizeInBytes(), messages),
                    LeaderAndEpoch.UNKNOWN);
            loader.maybeFlushBatches(LeaderAndEpoch.UNKNOWN, true);
        }
    }

    private ApiMessageAndVersion decode(Record record) {
        return serde.read(new ByteBufferAccessor(record.value()), record.valueSize());
    }

    private RuntimeException fault(String message, Throwable cause) {
        Matcher found = OFFSET.matcher(message);
        if (!found.find()) {
            throw new IllegalStateException(message, cause);
        }
        faults.add(Long.parseLong(found.group(1)));
        return new RuntimeException(message, cause);
    }

    private void control(RecordBatch batch, long last) {
        for (Record record : batch) {
            if (record.offset() > last) {
                return;
            }
            ControlRecordType type = ControlRecordType.parse(record.key());
            if (type == ControlRecordType.KRAFT_VOTERS) {
                voters = VoterSet.fromVotersRecord(
                        ControlRecordUtils.deserializeVotersRecord(record));
            } else if (type == ControlRecordType.KRAFT_VERSION) {
                kraftVersion = ControlRecordUtils.deserializeKRaftVersionRecord(record)
                        .kRaftVersion();
            }
        }
    }

    // --- printing

    private void print() throws Exception {
        image.features().metadataVersion().ifPresent(
                version -> line("feature", "name", "metadata.version", "level", version.featureLevel()));
        image.features().finalizedVersions().forEach(
                (name, level) -> line("feature", "name", name, "level", level));
        if (kraftVersion > 0) {
            line("feature", "name", "kraft.version", "level", kraftVersion);
        }
        if (voters != null) {
            var record = voters.toVotersRecord((short) 0);
            record.voters().forEach(voter -> line(
                    "voter",
                    "id", voter.voterId(),
                    "directory_id", text(voter.voterDirectoryId()),
                    "endpoints", voter.endpoints().stream().sorted((a, b) -> a.name().compareTo(b.name()))
                            .map(each -> fields("name", each.name(), "host", each.host(), "port", each.port()))
                            .toList(),
                    "min_kraft_version", voter.kRaftVersionFeature().minSupportedVersion(),
                    "max_kraft_version", voter.kRaftVersionFeature().maxSupportedVersion()));
        }
        image.cluster().controllers().values().forEach(each -> line(
                "controller",
                "id", each.id(),
                "incarnation_id", text(each.incarnationId()),
                "zk_migration_ready", each.zkMigrationReady(),
                "endpoints", endpoints(each.listeners()),
                "features", features(each.supportedFeatures())));
        image.cluster().brokers().values().forEach(each -> line(
                "broker",
                "id", each.id(),
                "epoch", each.epoch(),
                "incarnation_id", text(each.incarnationId()),
                "endpoints", endpoints(each.listeners()),
                "features", features(each.supportedFeatures()),
                "rack", each.rack().orElse(null),
                "fenced", each.fenced(),
                "in_controlled_shutdown", each.inControlledShutdown(),
                "migrating_zk_broker", each.toString().contains("isMigratingZkBroker=true"),
                "log_dirs", texts(each.directories()).stream().sorted().toList(),
                "cordoned_log_dirs",
                each.cordonedDirectories() == null ? null : texts(each.cordonedDirectories())));
        topics();
        image.configs().resourceData().forEach((resource, configs) -> configs.toMap().forEach(
                (name, value) -> line(
                        "config",
                        "resource_type", resource.type().name(),
                        "resource", resource.name(),
                        "name", name,
                        "value", value)));
        image.acls().acls().forEach((id, acl) -> line(
                "acl",
                "id", text(id),
                "resource_type", acl.resourceType().name(),
                "resource", acl.resourceName(),
                "pattern_type", acl.patternType().name(),
                "principal", acl.principal(),
                "host", acl.host(),
                "operation", acl.operation().name(),
                "permission_type", acl.permissionType().name()));
        image.clientQuotas().entities().forEach((entity, quotas) -> quotas.quotas().forEach(
                (name, value) -> line(
                        "quota",
                        "entity", entity.entries().entrySet().stream().sorted(Map.Entry.comparingByKey())
                                .map(each -> fields("type", each.getKey(), "name", each.getValue())).toList(),
                        "name", name,
                        "value", value)));
        image.scram().mechanisms().forEach((mechanism, users) -> users.forEach(
                (user, data) -> line(
                        "scram",
                        "user", user,
                        "mechanism", mechanism.mechanismName(),
                        "iterations", data.iterations())));
        image.delegationTokens().tokens().forEach((id, data) -> {
            var token = data.tokenInformation();
            line(
                    "token",
                    "token_id", id,
                    "owner", token.ownerAsString(),
                    "requester", token.tokenRequesterAsString(),
                    "renewers", List.copyOf(token.renewersAsString()),
                    "issue_ms", token.issueTimestamp(),
                    "expiry_ms", token.expiryTimestamp(),
                    "max_ms", token.maxTimestamp());
        });
        if (image.producerIds().nextProducerId() >= 0) {
            line("producer_ids", "next_producer_id", image.producerIds().nextProducerId());
        }
        Map<String, Object> printed = new LinkedHashMap<>(lines);
        printed.put("faults", faults);
        System.out.println(new ObjectMapper().writeValueAsString(printed));
    }

    private void topics() {
        image.topics().topicsById().forEach((id, topic) -> {
            line("topic", "topic", topic.name(), "topic_id", text(id),
                    "partitions", topic.partitions().size());
            topic.partitions().forEach((number, each) -> line(
                    "partition",
                    "topic", topic.name(),
                    "partition", number,
                    "topic_id", text(id),
                    "replicas", list(each.replicas),
                    "isr", list(each.isr),
                    "removing_replicas", list(each.removingReplicas),
                    "adding_replicas", list(each.addingReplicas),
                    "leader", each.leader,
                    "leader_epoch", each.leaderEpoch,
                    "partition_epoch", each.partitionEpoch,
                    "leader_recovery_state", each.leaderRecoveryState.name(),
                    "elr", list(each.elr),
                    "last_known_elr", list(each.lastKnownElr),
                    "directories", texts(Arrays.asList(each.directories))));
        });
    }

    private static List<Map<String, Object>> endpoints(Map<String, Endpoint> listeners) {
        return listeners.values().stream()
                .sorted((a, b) -> a.listener().compareTo(b.listener()))
                .map(each -> fields(
                        "name", each.listener(),
                        "host", each.host(),
                        "port", each.port(),
                        "security_protocol", each.securityProtocol().name()))
                .toList();
    }

    private static List<Map<String, Object>> features(Map<String, VersionRange> supported) {
        return supported.entrySet().stream()
                .sorted(Map.Entry.comparingByKey())
                .map(each -> fields(
                        "name", each.getKey(),
                        "min_level", each.getValue().min(),
                        "max_level", each.getValue().max()))
                .toList();
    }

    private static String text(Uuid id) {
        return id.toString();
    }

    private static List<String> texts(Collection<Uuid> ids) {
        return ids.stream().map(Image::text).toList();
    }

    private static List<Integer> list(int[] numbers) {
        return Arrays.stream(numbers).boxed().toList();
    }

    private void line(String kind, Object... pairs) {
        lines.computeIfAbsent(kind, unseen -> new ArrayList<>()).add(fields(pairs));
    }

    private static Map<String, Object> fields(Object... pairs) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            fields.put((String) pairs[index], pairs[index + 1]);
        }
        return fields;
    }
}
